//! Default actions: a name and arguments, each with the name of its field.

use super::error::Wrong;
use super::resolve::Scene;
use super::words::{Line, Word};
use crate::form::{Field, Invocation};

/// Reads `ACTION args none|FIELD VALUE … [const]`, and whether it is constant.
pub(super) fn read<'a>(
    scene: &Scene<'a, '_>,
    line: &Line<'a>,
) -> Result<(Invocation, bool), Wrong> {
    let action = scene.action(line.first())?;
    line.wants(1, "args")?;
    let is_const = line.len() > 2 && line.at(line.len() - 1).text == "const";
    let end = line.len() - usize::from(is_const);
    let fields = scene.program.arguments(action);
    let mut arguments = Vec::new();
    match line.at(2).text {
        "none" if end == 3 && fields.is_empty() => {}
        "none" if end == 3 => {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            return Err(line.at(2).expected(format!("values of {}", names.join(", "))));
        }
        _ => {
            for (at, field) in fields.iter().enumerate() {
                line.wants(2 + 2 * at, &field.name)?;
                arguments.push(value(line.at(3 + 2 * at), field)?);
            }
            if end > 2 + 2 * fields.len() {
                return Err(line.at(2 + 2 * fields.len()).expected("the end of the line"));
            }
            if fields.is_empty() {
                return Err(line.at(2).expected("`none`: the action has no arguments"));
            }
        }
    }
    Ok((Invocation { action, arguments }, is_const))
}

/// The bytes of a value, which may be written with as many digits as its field has room for.
fn value(word: Word<'_>, field: &Field) -> Result<Vec<u8>, Wrong> {
    let (text, len) = (word.text, field.bits as usize / 8);
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    if let Some(digits) = digits.filter(|digits| digits.len() > 16) {
        return crate::value::from_hex(digits, len).ok_or_else(|| too_wide(word, field));
    }
    let number = word.number()?;
    // A negative number has ones before it in any width.
    let cut = match text.starts_with('-') {
        true => number & u64::MAX.checked_shr(64 - field.bits.min(64)).unwrap_or(0),
        false => number,
    };
    crate::value::from_number(cut, len).ok_or_else(|| too_wide(word, field))
}

fn too_wide(word: Word<'_>, field: &Field) -> Wrong {
    word.expected(format!("a number of {} bits for `{}`", field.bits, field.name))
}
