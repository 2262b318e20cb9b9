//! A task for each client, by tokio and hyper: server http|echo PORT.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

static BODY: [u8; 4000] = [b'x'; 4000];

async fn answer(_: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(&BODY))))
}

async fn echo(mut client: TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 65536];
    loop {
        match client.read(&mut buffer).await? {
            0 => return Ok(()),
            length => client.write_all(&buffer[..length]).await?,
        }
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, workload, port] = &words[..] else { panic!("usage: server http|echo PORT") };
    let is_echo = workload == "echo";
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).await?;
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        tokio::spawn(async move {
            if is_echo {
                let _ = echo(client).await;
            } else {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(client), service_fn(answer)).await;
            }
        });
    }
}
