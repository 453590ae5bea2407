//! Measures the exact-match table beyond the bar, alone and in turn with `rte_hash`.
//!
//! ```text
//! cargo bench -p niclab-bench --bench exact -- lookup 65536 miss
//! ```
//! Commands: `lookup KEYS hit|hashed|miss`, `width KEYS`, `insert KEYS`, `update KEYS`,
//! `grow KEYS`, `all`. Options: `--peers DIR`, `--flags FLAGS` of the peer's table, `--spare N`
//! (its capacity is N times the keys), `--pairs N`, `--small` (ordinary pages on both sides),
//! `--core N`. Without a command everything runs once with tiny tables: that is what `cargo test
//! --benches` does.

mod cases;

use std::error::Error;
use std::path::Path;
use std::str::FromStr;

use cases::Options;
use niclab_bench::Bench;
use niclab_bench::exact::Probe;
use niclab_pairing::pin;
use niclab_table::Pages;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    let bench = Bench { peers, ..Bench::default() };
    let options = Options { bench, pages: Pages::Huge, peer_flags: "d".into(), peer_spare: 2 };
    if arguments.is_empty() {
        let bench = Bench { pairs: 6, slice_ms: 1, ..options.bench };
        return cases::all(&Options { bench, ..options }, &[1000]);
    }
    run(options, &arguments)
}

fn run(mut options: Options, arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let mut words = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{word} needs a value"));
        match word {
            "--core" => options.bench.core = number(value()?)?,
            "--flags" => options.peer_flags = value()?.into(),
            "--pairs" => options.bench.pairs = number(value()?)?,
            "--peers" => options.bench.peers = value()?.into(),
            "--small" => options.pages = Pages::Small,
            "--spare" => options.peer_spare = number(value()?)?,
            _ => words.push(word),
        }
    }
    pin(options.bench.core)?;
    match words[..] {
        ["all"] => cases::all(&options, &[4096, 65_536, 1_000_000, 4_000_000]),
        ["grow", keys] => cases::grow(&options, number(keys)?),
        ["insert", keys] => cases::insertion(&options, number(keys)?),
        ["lookup", keys, "hashed"] => cases::lookup(&options, number(keys)?, Probe::Hashed),
        ["lookup", keys, "hit"] => cases::lookup(&options, number(keys)?, Probe::Hit),
        ["lookup", keys, "miss"] => cases::lookup(&options, number(keys)?, Probe::Miss),
        ["update", keys] => cases::update(&options, number(keys)?),
        ["width", keys] => cases::widths(&options, number(keys)?),
        _ => Err(format!("unknown command {words:?}; see the top of exact/main.rs").into()),
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
