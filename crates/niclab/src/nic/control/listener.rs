//! The listening socket of the control protocol. Only its owner, and a named group, may connect.
//!
//! The file has its mode from the moment it exists, whatever the umask: `bind` gives it the mode of
//! the socket (`unix_bind_bsd` in net/unix/af_unix.c), which has no name before. Nobody can connect
//! before the socket listens, and it listens once its group is set.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, chmodat, chownat, fchmod, fstat, lstat,
    openat, unlink,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::geteuid;

use crate::failure::Failure;
use crate::files;
use crate::output::quoted;

/// Clients that wait to be let in.
const WAITING_MAX: i32 = 128;

/// Its owner's alone, and its owner's and a group's.
const OWN: Mode = Mode::RUSR.union(Mode::WUSR);
const SHARED: Mode = OWN.union(Mode::RGRP).union(Mode::WGRP);

/// A socket with a name, which goes with this.
pub(super) struct ListeningSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file that was made.
    file: (u64, u64),
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        // Not what another has put there since.
        if lstat(&self.path).is_ok_and(|now| identity(&now) == self.file) {
            let _ = unlink(&self.path);
        }
    }
}

fn identity(file: &Stat) -> (u64, u64) {
    (file.st_dev, file.st_ino)
}

impl ListeningSocket {
    /// Listens at a path. What a killed card left is taken away; one that runs is not disturbed,
    /// and what is no socket, such as a symbolic link, stays.
    pub(super) fn open(path: &Path, group: Option<&str>) -> Result<ListeningSocket, Failure> {
        let refused = |reason: String| Failure::Control { path: path.to_path_buf(), reason };
        let group = group.map(|name| {
            let unknown = || {
                refused(format!(
                    "--control-group {name}: no such group in /etc/group: give one of it, or a \
                     number"
                ))
            };
            files::group(name).map(Gid::from_raw).ok_or_else(unknown)
        });
        let group = group.transpose()?;
        let socket = named(path).map_err(|error| match error {
            Errno::ADDRINUSE => refused(
                "it is there already: another card, or a file; choose another path for --control"
                    .to_owned(),
            ),
            Errno::ACCESS => {
                refused(format!("{}: {}", io::Error::from(error), files::who_may(path)))
            }
            error @ Errno::NOENT => {
                let error = io::Error::from(error);
                match path.parent().filter(|of| !of.as_os_str().is_empty() && !of.exists()) {
                    Some(directory) => refused(format!(
                        "{error}; make the directory first: install -d {}",
                        quoted(&directory.to_string_lossy())
                    )),
                    None => refused(error.to_string()),
                }
            }
            error => {
                let error = io::Error::from(error);
                refused(format!("{error}; --control takes the path of a socket to be made"))
            }
        })?;
        let message = |error: Errno| refused(io::Error::from(error).to_string());
        let file = identity(&lstat(path).map_err(message)?);
        let listener = UnixListener::from(socket);
        let socket = ListeningSocket { listener, path: path.to_path_buf(), file };
        share(path, file, group).map_err(|error| match (error, group) {
            (Errno::PERM, Some(_)) => refused(
                "--control-group: only root, and a member of the group, may give it the socket"
                    .to_owned(),
            ),
            (error, _) => message(error),
        })?;
        listen(&socket.listener, WAITING_MAX).map_err(message)?;
        Ok(socket)
    }
}

fn stream() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// A socket that has a path, with the mode [`OWN`] and what the umask leaves of it.
fn named(path: &Path) -> Result<OwnedFd, Errno> {
    let (socket, address) = (stream()?, SocketAddrUnix::new(path)?);
    fchmod(&socket, OWN)?;
    match bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            let is_socket = FileType::from_raw_mode(lstat(path)?.st_mode) == FileType::Socket;
            // Nobody listens where a killed card left it.
            if !is_socket || connect(stream()?, &address) != Err(Errno::CONNREFUSED) {
                return Err(Errno::ADDRINUSE);
            }
            unlink(path)?;
            bind(&socket, &address)?;
        }
        bound => bound?,
    }
    Ok(socket)
}

/// Gives the socket at a path its mode and its group. The file is held while that is done: what
/// another puts in its place meanwhile is not touched.
fn share(path: &Path, made: (u64, u64), group: Option<Gid>) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    let about = fstat(&file)?;
    let is_ours = FileType::from_raw_mode(about.st_mode) == FileType::Socket
        && about.st_uid == geteuid().as_raw()
        && identity(&about) == made;
    if !is_ours {
        return Err(Errno::ADDRINUSE);
    }
    if group.is_some() {
        chownat(&file, "", None, group, AtFlags::EMPTY_PATH)?;
    }
    let mode = if group.is_some() { SHARED } else { OWN };
    if Mode::from_raw_mode(about.st_mode) != mode {
        // What was opened as a path alone has its mode changed by this name alone.
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        chmodat(CWD, held, mode, AtFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn refusal(path: &Path, group: Option<&str>) -> String {
        ListeningSocket::open(path, group).err().unwrap().to_string()
    }

    #[test]
    fn the_socket_is_its_owners_and_a_groups_that_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("card");
        let door = ListeningSocket::open(&path, None).unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(door);
        assert!(!path.exists());
        let message = refusal(&path, Some("no such group"));
        assert!(
            message.contains("--control-group no such group: no such group in /etc/group"),
            "{message}"
        );
        assert!(!path.exists());
        let (group, number) = match geteuid().is_root() {
            true => ("65534".to_owned(), 65_534),
            false => (
                rustix::process::getegid().as_raw().to_string(),
                rustix::process::getegid().as_raw(),
            ),
        };
        let _door = ListeningSocket::open(&path, Some(&group)).unwrap();
        assert_eq!((mode(&path), fs::metadata(&path).unwrap().gid()), (0o660, number));
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn the_file_has_its_mode_before_it_has_anything_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("card");
        let _socket = named(&path).unwrap();
        // The umask takes of it and adds nothing.
        assert_eq!(mode(&path) & !0o600, 0);
        assert!(UnixStream::connect(&path).is_err(), "it does not listen yet");
    }

    #[test]
    fn a_directory_that_is_missing_is_named_with_its_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("niclab");
        let message = refusal(&missing.join("card.sock"), None);
        let remedy = format!("make the directory first: install -d {}", missing.display());
        assert!(message.contains(&remedy), "{message}");
    }

    #[test]
    fn files_that_are_not_our_socket_stay() {
        let directory = tempfile::tempdir().unwrap();
        let [rules, link, dangling, left, socket] =
            ["rules", "link", "dangling", "left", "card"].map(|name| directory.path().join(name));
        fs::write(&rules, "precious").unwrap();
        symlink(&rules, &link).unwrap();
        symlink(directory.path().join("nothing"), &dangling).unwrap();
        for path in [&rules, &link, &dangling] {
            let message = refusal(path, None);
            assert!(message.contains("it is there already"), "{message}");
            assert!(fs::symlink_metadata(path).is_ok());
        }
        assert!(!directory.path().join("nothing").exists());
        assert_eq!(fs::read_to_string(&rules).unwrap(), "precious");
        // A link to what a killed card left is not followed either.
        drop(UnixListener::bind(&socket).unwrap());
        symlink(&socket, &left).unwrap();
        refusal(&left, None);
        assert!(fs::symlink_metadata(&socket).is_ok());
        // What it left itself is taken away, and one that listens is not.
        let door = ListeningSocket::open(&socket, None).unwrap();
        refusal(&socket, None);
        // What is put in the place of the socket is not taken away with it.
        fs::rename(&rules, &socket).unwrap();
        drop(door);
        assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
    }
}
