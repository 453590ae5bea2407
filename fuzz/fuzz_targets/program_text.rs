//! Any text is a program or is refused at a place in it; a program is what its own text says, and
//! carries packets through.
#![no_main]

use libfuzzer_sys::fuzz_target;
use niclab_program::Program;
use niclab_program::definition::Definition;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Program::read(text) {
        Err(error) => {
            assert!(error.line() >= 1 && error.column() >= 1);
            assert!(!error.to_string().is_empty());
        }
        Ok(program) => {
            assert_eq!(Program::read(&program.to_string()).as_ref(), Ok(&program));
            // Arrays can be as large as memory.
            let words = program.registers.iter().map(|array| array.len).sum::<usize>()
                + program.meters.iter().map(|array| array.len).sum::<usize>();
            if words < 1 << 16 {
                let mut definition = Definition::new(program);
                definition.run(1, data);
                definition.run(0, &[0; 64]);
            }
        }
    }
});
