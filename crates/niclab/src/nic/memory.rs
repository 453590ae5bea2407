//! Memory that a program shares with its application, as somebody looks at it: copies, which take
//! nothing from the application.

use niclab_card::Look;
use niclab_program::Pipeline;
use serde_json::{Value, json};

use super::programmed::{named, number};

/// Entries of a ring that are shown, at most: what waits behind them is told to be there.
const ENTRIES_MAX: u32 = 64;

/// Bytes of a window that are shown, at most, and on a line.
const WINDOW_MAX: usize = 4_096;
const LINE_BYTES: usize = 16;

/// A copy of the first entries that wait in a ring: whoever reads it still finds them.
pub(super) fn ring(pipeline: &Pipeline, name: &str, index: &str) -> Result<Value, String> {
    let rings = &pipeline.program().rings;
    let at = named("ring", name, rings.iter().map(|of| &of.name))?;
    let (count, ring) = (rings[at].count, number(index)?);
    if ring >= count as u64 {
        return Err(format!("ring {name} has {count}, from 0 on: there is no {index}"));
    }
    let entry = |behind| pipeline.waiting(at, ring as usize, behind);
    let entries: Vec<Vec<u8>> = (0..ENTRIES_MAX).map_while(entry).collect();
    let mut done = Vec::new();
    for (number, bytes) in entries.iter().enumerate() {
        done.push(format!("entry {number}:"));
        done.extend(dump(0, bytes));
    }
    match (entries.len(), entry(ENTRIES_MAX)) {
        (0, _) => done.push("no entry waits".to_owned()),
        (_, Some(_)) => done.push("and more behind them".to_owned()),
        _ => {}
    }
    let entries: Vec<String> = entries.iter().map(|bytes| hex(bytes)).collect();
    Ok(json!({ "done": done, "entries": entries }))
}

/// A copy of some bytes of a window.
pub(super) fn window(
    look: &Look<'_>,
    name: &str,
    offset: &str,
    count: &str,
) -> Result<Value, String> {
    let (offset, bytes) = copied(look, name, number(offset)?, number(count)?)?;
    Ok(json!({ "done": dump(offset, &bytes), "bytes": hex(&bytes) }))
}

/// So many numbers of a window from a place on, their last byte first, as the card writes them;
/// `width` is `u8`, `u16`, `u32` or `u64`.
pub(super) fn numbers(
    look: &Look<'_>,
    name: &str,
    (offset, count): (&str, &str),
    width: &str,
) -> Result<Value, String> {
    let bytes_each = match width {
        "u8" => 1,
        "u16" => 2,
        "u32" => 4,
        "u64" => 8,
        _ => return Err(format!("`{width}`: write u8, u16, u32 or u64, or nothing for bytes")),
    };
    let len = number(count)?.saturating_mul(bytes_each);
    let (offset, bytes) = copied(look, name, number(offset)?, len)?;
    let of = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let numbers: Vec<u64> = bytes.chunks(bytes_each as usize).map(of).collect();
    let line = |(at, numbers): (usize, &[u64])| {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        format!("{:08x}  {}", offset + at * LINE_BYTES, numbers.join(" "))
    };
    let each_line = LINE_BYTES / bytes_each as usize;
    let done: Vec<String> = numbers.chunks(each_line).enumerate().map(line).collect();
    Ok(json!({ "done": done, "numbers": numbers }))
}

/// Bytes of a window from a place on, and the place.
fn copied(
    look: &Look<'_>,
    name: &str,
    offset: u64,
    count: u64,
) -> Result<(usize, Vec<u8>), String> {
    let windows = &look.program().windows;
    let at = named("window", name, windows.iter().map(|of| &of.name))?;
    let len = windows[at].len;
    if !(1..=WINDOW_MAX as u64).contains(&count) {
        return Err(format!("{count} bytes: ask for 1 to {WINDOW_MAX} at a time"));
    }
    if offset.checked_add(count).is_none_or(|end| end > len as u64) {
        return Err(format!(
            "{count} bytes from {offset} on reach beyond window {name}, which ends at {len}: its \
             bytes are 0 to {}",
            len - 1
        ));
    }
    let (offset, mut bytes) = (offset as usize, vec![0; count as usize]);
    look.copy_window(at, offset, &mut bytes);
    Ok((offset, bytes))
}

/// Lines as of `hexdump -C`: the place in hexadecimal, bytes, and what of them is ASCII.
fn dump(offset: usize, bytes: &[u8]) -> Vec<String> {
    let line = |(at, bytes): (usize, &[u8])| {
        let mut line = format!("{:08x} ", offset + at * LINE_BYTES);
        for place in 0..LINE_BYTES {
            line += if place % 8 == 0 { " " } else { "" };
            line += &bytes.get(place).map_or("   ".to_owned(), |byte| format!("{byte:02x} "));
        }
        let shown = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        let text: String = bytes.iter().map(shown).collect();
        format!("{line} |{text}|")
    };
    bytes.chunks(LINE_BYTES).enumerate().map(line).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_hexdump_does() {
        let bytes: Vec<u8> = (0x41..0x55).collect();
        let lines = dump(0x100, &bytes);
        let first =
            "00000100  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  |ABCDEFGHIJKLMNOP|";
        assert_eq!(lines[0], first);
        assert_eq!(lines[1], format!("{:<60}|QRST|", "00000110  51 52 53 54"));
        assert_eq!(dump(0, b"\0\x7f\xff~")[0].split('|').nth(1), Some("...~"));
    }
}
