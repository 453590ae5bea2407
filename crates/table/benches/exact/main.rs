//! Measures the exact-match table, alone and in turn with a peer.
//!
//! ```text
//! cargo bench -p niclab-table --bench exact -- lookup 65536 hit [--peer PROGRAM]
//! ```
//! Commands: `lookup KEYS hit|hashed|miss`, `width KEYS`, `insert KEYS`, `update KEYS`,
//! `grow KEYS`, `all`. Options: `--peer PROGRAM` (benches/peers/rte_hash), `--flags FLAGS` of
//! its table, `--spare N` (its capacity is N times the keys), `--pairs N`, `--small` (ordinary
//! pages on both sides), `--core N`. Without a command everything runs once with tiny tables:
//! that is what `cargo test --benches` does.

mod cases;
mod keys;
mod paired;
mod peer;

use cases::Setup;

fn main() {
    paired::check();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let outcome = match arguments.is_empty() {
        true => cases::all(&Setup::tiny(), &[1000]),
        false => run(&arguments),
    };
    if let Err(error) = outcome {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let mut setup = Setup::default();
    let mut words = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{word} needs a value"));
        match word {
            "--core" => setup.core = number(value()?)?,
            "--flags" => setup.peer_flags = value()?.into(),
            "--pairs" => setup.pairs = number(value()?)?,
            "--peer" => setup.peer = Some(value()?.into()),
            "--small" => setup.pages = niclab_table::Pages::Small,
            "--spare" => setup.peer_spare = number(value()?)?,
            _ => words.push(word),
        }
    }
    setup.pin();
    match words[..] {
        ["all"] => cases::all(&setup, &[4096, 65_536, 1_000_000, 4_000_000]),
        ["grow", keys] => cases::grow(&setup, number(keys)?),
        ["insert", keys] => cases::insert(&setup, number(keys)?),
        ["lookup", keys, mode] => cases::lookup(&setup, number(keys)?, mode),
        ["update", keys] => cases::update(&setup, number(keys)?),
        ["width", keys] => cases::widths(&setup, number(keys)?),
        _ => Err(format!("unknown command {words:?}; see the top of benches/exact/main.rs")),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
