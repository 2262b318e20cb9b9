// A server that replies to any request with the number of its body's bytes, and to /STATUS with that status, without
// reading the body. Arguments: a port, how long a connection may be idle, and a file with a certificate for TLS.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func reply(writer http.ResponseWriter, request *http.Request) {
	if status, err := strconv.Atoi(strings.TrimPrefix(request.URL.Path, "/")); err == nil {
		writer.WriteHeader(status)
		return
	}
	bytes, err := io.Copy(io.Discard, request.Body)
	if err == nil {
		fmt.Fprint(writer, bytes)
	}
}

func main() {
	idle, err := time.ParseDuration(os.Args[2])
	if err != nil {
		panic(err)
	}
	server := &http.Server{Addr: "127.0.0.1:" + os.Args[1], IdleTimeout: idle, Handler: http.HandlerFunc(reply)}
	if len(os.Args) > 3 {
		panic(server.ListenAndServeTLS(os.Args[3], os.Args[3]))
	}
	panic(server.ListenAndServe())
}
