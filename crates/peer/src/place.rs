//! Where the peers of this program are.

use std::path::{Path, PathBuf};

/// Where `benches/peers/build` puts the peers of this program: beside its own directory, as
/// `target/peers` is beside `target/release`. This ignores the working directory, which may be
/// anybody's, and every directory that another user may have made, such as one below `/tmp`.
pub fn peers() -> PathBuf {
    peers_of(&std::env::current_exe().unwrap_or_default())
}

fn peers_of(own: &Path) -> PathBuf {
    // `target/release/niclab`, or a test or benchmark in `target/debug/deps`.
    let places = || own.ancestors().skip(2).take(2).map(|place| place.join("peers"));
    let found = places().find(|place| place.is_dir() && niclab_files::is_trusted(place));
    // Where there are none: nobody can put anything below a program.
    let none = || places().find(|place| !place.exists()).unwrap_or_else(|| own.join("peers"));
    found.unwrap_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_somebody_else_may_have_put_there_are_none() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let (target, own) = (directory.path(), directory.path().join("release/niclab"));
        let place = target.join("peers");
        assert_eq!(peers_of(&own), place, "where they would be");
        std::fs::create_dir(&place).unwrap();
        assert_eq!(peers_of(&own), place);
        let wide = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&place, wide).unwrap();
        assert_ne!(peers_of(&own), place);
    }
}
