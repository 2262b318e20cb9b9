//! Tests of a ring with real sockets.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::{Completion, Ring};
use crate::sys::descriptor::{read, stream_pair, write};

/// Makes a ring and the two ends of a connection. If this machine has no rings, prints that and returns `None`.
fn ring(buffers: u16) -> Option<(Ring, OwnedFd, OwnedFd)> {
    let ring = Ring::new(buffers, 64).inspect_err(|refusal| println!("skipped: {refusal}")).ok()?;
    let (near, far) = stream_pair().unwrap();
    Some((ring, near, far))
}

fn next(ring: &mut Ring) -> Completion {
    loop {
        if let Some(completion) = ring.completion() {
            return completion;
        }
        ring.wait().unwrap();
    }
}

#[test]
fn a_single_buffer_brings_all_bytes_and_then_the_end() {
    let Some((mut ring, near, far)) = ring(1) else { return };
    let sent: Vec<u8> = (0..=255).collect();
    write(far.as_fd(), &sent).unwrap();
    drop(far);
    let (mut received, mut without_buffer) = (Vec::new(), 0);
    ring.receive(near.as_fd()).unwrap();
    loop {
        let Completion::Received { socket, result, more } = next(&mut ring) else { panic!("a receive was made") };
        assert_eq!(socket, near.as_raw_fd());
        match result {
            Ok(Some(buffer)) => ring.take(buffer, &mut received),
            Ok(None) => break,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS));
                without_buffer += 1;
            }
        }
        if !more {
            ring.receive(near.as_fd()).unwrap();
        }
    }
    assert_eq!(received, sent);
    assert!(without_buffer > 0, "256 bytes came in one buffer of 64");
}

/// Both ends of a TCP connection; the far end resets it when it is closed.
fn that_is_reset() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    (listener.accept().unwrap().0.into(), far.into())
}

/// Receives to the end of a connection, and returns the bytes and the end's error number.
fn received_to_the_end(ring: &mut Ring, near: &OwnedFd) -> (Vec<u8>, Option<i32>) {
    let mut received = Vec::new();
    loop {
        let Completion::Received { result, more, .. } = next(ring) else { panic!("a receive was made") };
        match result {
            Ok(Some(buffer)) => ring.take(buffer, &mut received),
            Ok(None) => return (received, None),
            // The ring has found an end that the kernel did not report.
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {}
            Err(error) => return (received, error.raw_os_error()),
        }
        if !more {
            ring.receive(near.as_fd()).unwrap();
        }
    }
}

#[test]
fn an_end_that_comes_with_data_is_reported() {
    for ((near, far), end) in [(stream_pair().unwrap(), None), (that_is_reset(), Some(libc::ECONNRESET))] {
        let Some((mut ring, ..)) = ring(4) else { return };
        ring.receive(near.as_fd()).unwrap();
        ring.look().unwrap();
        write(far.as_fd(), b"the last").unwrap();
        drop(far);
        assert_eq!(received_to_the_end(&mut ring, &near), (b"the last".to_vec(), end));
    }
}

/// The kernel loses the end of one connection in some ten thousand, more on busy CPUs.
#[test]
#[ignore = "takes 20 s"]
fn an_end_that_comes_while_data_is_received_is_reported() {
    for make in [|| stream_pair().unwrap(), that_is_reset] {
        let Some((mut ring, ..)) = ring(4) else { return };
        let (hand, take) = mpsc::channel::<OwnedFd>();
        let ends = thread::spawn(move || {
            for far in take {
                write(far.as_fd(), b"the last").unwrap();
                drop(far);
            }
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let (near, far) = make();
            ring.receive(near.as_fd()).unwrap();
            ring.look().unwrap();
            hand.send(far).unwrap();
            let (received, end) = received_to_the_end(&mut ring, &near);
            // A reset may come before the data is received.
            assert!(received == b"the last" || end.is_some());
        }
        drop(hand);
        ends.join().unwrap();
    }
}

#[test]
fn a_cancelled_receive_reports_that_and_ends() {
    let Some((mut ring, near, far)) = ring(4) else { return };
    ring.receive(near.as_fd()).unwrap();
    ring.cancel_receive(near.as_fd()).unwrap();
    let Completion::Received { result, more, .. } = next(&mut ring) else { panic!("a receive was cancelled") };
    assert_eq!(result.err().and_then(|error| error.raw_os_error()), Some(libc::ECANCELED));
    assert!(!more);
    write(far.as_fd(), b"too late").unwrap();
    ring.pause(Duration::from_millis(10)).unwrap();
    assert!(matches!(next(&mut ring), Completion::Paused));
}

#[test]
fn a_send_keeps_its_bytes_until_it_is_done_or_the_ring_goes() {
    let Some((mut ring, near, far)) = ring(4) else { return };
    let bytes: Arc<[u8]> = vec![7; 16 << 20].into();
    ring.send(near.as_fd(), Arc::clone(&bytes), 0..bytes.len()).unwrap();
    let Completion::Sent { result: Ok(sent), .. } = next(&mut ring) else { panic!("a send was made") };
    assert!(0 < sent && sent < bytes.len(), "{sent} bytes fit into a socket that nobody reads");
    assert_eq!(Arc::strong_count(&bytes), 1);
    // The socket is full, so this send stays in flight.
    ring.send(near.as_fd(), Arc::clone(&bytes), sent..bytes.len()).unwrap();
    ring.pause(Duration::from_millis(1)).unwrap();
    assert!(matches!(next(&mut ring), Completion::Paused));
    assert_eq!(Arc::strong_count(&bytes), 2);
    drop(ring);
    assert_eq!(Arc::strong_count(&bytes), 1);
    // The cancelled send sends nothing more.
    drop(near);
    let (mut buffer, mut left) = (vec![0; 1 << 16], sent);
    while left > 0 {
        left -= read(far.as_fd(), &mut buffer).unwrap();
    }
    assert_eq!(read(far.as_fd(), &mut buffer).unwrap(), 0);
}
