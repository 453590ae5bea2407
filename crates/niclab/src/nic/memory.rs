//! Memory that a program shares with its application, as somebody looks at it: copies, which take
//! nothing from the application.

use niclab_card::ProgramView;
use niclab_control::{Response, Width};
use niclab_program::Pipeline;

use super::card_program::named;

/// Entries of a ring that are shown, at most; of the others the answer says that they wait.
const ENTRIES_MAX: u32 = 64;

/// Bytes of a window that are shown, at most.
const WINDOW_MAX: usize = 4_096;

/// A copy of the first entries that wait in a ring: whoever reads it still finds them.
pub(super) fn ring(pipeline: &Pipeline, name: &str, index: u64) -> Result<Response, String> {
    let rings = &pipeline.program().rings;
    let at = named("ring", name, rings.iter().map(|of| &of.name))?;
    let count = rings[at].count;
    if index >= count as u64 {
        return Err(format!("ring {name} has {count}, from 0 on: there is no {index}"));
    }
    let entry = |behind| pipeline.waiting(at, index as usize, behind);
    let entries = (0..ENTRIES_MAX).map_while(entry).map(|bytes| hex(&bytes)).collect();
    Ok(Response::Ring { entries, has_more: entry(ENTRIES_MAX).is_some() })
}

/// A copy of some bytes of a window; of numbers where a width is given, their last byte first, as
/// the card writes them.
pub(super) fn window(
    look: &ProgramView<'_>,
    name: &str,
    (offset, count): (u64, u64),
    width: Option<Width>,
) -> Result<Response, String> {
    let Some(width) = width else {
        let bytes = copied(look, name, offset, count)?;
        return Ok(Response::Window { offset, bytes: hex(&bytes) });
    };
    let bytes = copied(look, name, offset, count.saturating_mul(width.bytes()))?;
    let of = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let numbers = bytes.chunks(width.bytes() as usize).map(of).collect();
    Ok(Response::Numbers { offset, width, numbers })
}

/// Bytes of a window from a place on.
fn copied(look: &ProgramView<'_>, name: &str, offset: u64, count: u64) -> Result<Vec<u8>, String> {
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
    let mut bytes = vec![0; count as usize];
    look.copy_window(at, offset as usize, &mut bytes);
    Ok(bytes)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
