module server

go 1.21
