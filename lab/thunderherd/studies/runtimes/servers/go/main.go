// A goroutine for each client, by the standard library: server http|echo PORT.
package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: server http|echo PORT")
	}
	listener, err := net.Listen("tcp", "0.0.0.0:"+os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if os.Args[1] == "echo" {
		for {
			client, err := listener.Accept()
			if err != nil {
				log.Fatal(err)
			}
			go func() {
				defer client.Close()
				io.CopyBuffer(struct{ io.Writer }{client}, struct{ io.Reader }{client}, make([]byte, 65536))
			}()
		}
	}
	body := bytes.Repeat([]byte("x"), 4000)
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(reply http.ResponseWriter, _ *http.Request) {
		reply.Header().Set("Content-Length", "4000")
		reply.Write(body)
	})))
}
