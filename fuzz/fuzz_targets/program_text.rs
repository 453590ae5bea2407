//! Any text is a program or is refused at a place in it; a program is what its own text says, and
//! carries packets through: the fast path does what the definition says.
#![no_main]

mod program;

use libfuzzer_sys::fuzz_target;
use niclab_program::Program;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Program::read(text) {
        Err(error) => {
            assert!(error.line() >= 1 && error.column() >= 1);
            assert!(!error.to_string().is_empty());
        }
        Ok(program) => {
            assert_eq!(Program::read(&program.to_string()).as_ref(), Ok(&program));
            program::carry(program, &[data, &[0; 64]], &[]);
        }
    }
});
