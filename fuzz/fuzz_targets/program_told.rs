//! Input of programs: commands, files of tables, packet tests. The first byte picks the program
//! and the kind of input, the rest is text.
#![no_main]

mod program;

use libfuzzer_sys::fuzz_target;
use niclab_program::definition::Definition;
use niclab_program::{Command, Program, Stf, carry_out, read_tables};

const PROGRAMS: [&str; 5] = [
    include_str!("../../programs/acl/acl.spec"),
    include_str!("../../programs/kvs-items/kvs-items.spec"),
    include_str!("../../programs/l2-switch/l2-switch.spec"),
    include_str!("../../programs/load-balancer/load-balancer.spec"),
    include_str!("../../programs/rate-limiter/rate-limiter.spec"),
];

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let text_of = PROGRAMS[usize::from(first) % PROGRAMS.len()];
    // A log of 64 MiB would be written anew for each text.
    let text_of = text_of.replace("window items size 67108864", "window items size 4096");
    let Ok(program) = Program::read(&text_of) else { panic!("a program of the project") };
    match usize::from(first) / PROGRAMS.len() % 3 {
        0 => {
            let read = |line: &str| Command::read(&program, line);
            let told: Vec<Command> = text.lines().filter_map(|line| read(line).ok()).collect();
            program::carry(program, &[rest, &[0; 64]], &told);
        }
        1 => {
            if let Ok(told) = read_tables(&program, text) {
                program::carry(program, &[rest, &[0; 64]], &told);
            }
        }
        _ => {
            if let Ok(test) = Stf::read(&program, text) {
                carry_out(&test, &mut Definition::new(program));
            }
        }
    }
});
