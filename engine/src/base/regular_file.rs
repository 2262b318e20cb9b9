//! Files that a user names: read if they are regular, up to a size. A pipe would wait for its writer, and a device
//! may have no end.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Returns the content of a regular file of at most `most` bytes.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    Ok(content)
}

/// Opens a regular file; any other is an error.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK, opening a pipe waits.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_and_too_large_ones_are_refused() {
        let file = std::env::temp_dir().join(format!("thunderherd-regular-{}", std::process::id()));
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_regular(&file, 5).unwrap(), b"12345");
        assert_eq!(read_regular(&file, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::remove_file(&file).unwrap();
        for other in ["/dev/zero", "/"] {
            assert_eq!(read_regular(Path::new(other), 5).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{other}");
        }
    }
}
