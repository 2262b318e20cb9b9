//! Addresses of host names.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Once;

unsafe extern "C" {
    /// Replaces an entry of nsswitch.conf(5) for this process (nss.h of the GNU C library).
    #[cfg(target_env = "gnu")]
    fn __nss_configure_lookup(database: *const libc::c_char, sources: *const libc::c_char) -> libc::c_int;
}

/// Returns the addresses of `HOST:PORT` (getaddrinfo(3)).
///
/// Names are looked up in /etc/hosts and by DNS only. Every other source of nsswitch.conf(5) is a library of the system's C
/// library, and the engine has its own, with which another version may crash.
pub fn resolve(text: &str) -> io::Result<Vec<SocketAddr>> {
    static SOURCES: Once = Once::new();
    SOURCES.call_once(|| {
        #[cfg(target_env = "gnu")]
        // SAFETY: both are strings that live forever, and no lookup is in progress before the first one.
        unsafe {
            __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr());
        }
    });
    Ok(text.to_socket_addrs()?.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_etc_hosts_has_an_address_and_a_reserved_name_has_none() {
        let found = resolve("localhost:80").unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{found:?}");
        assert!(!found.is_empty());
        assert!(resolve("host.invalid:80").is_err(), "RFC 6761, section 6.4");
        assert_eq!(resolve("localhost").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
