//! The blocks of a program's text, before names are looked up: any may stand before what it names.

use super::error::Wrong;
use super::words::{Line, Word};

/// All blocks, each kind in its order.
#[derive(Debug, Default)]
pub(super) struct Blocks<'a> {
    pub structs: Vec<StructBlock<'a>>,
    /// Name and type.
    pub headers: Vec<(Word<'a>, Word<'a>)>,
    pub metadata: Option<Word<'a>>,
    pub actions: Vec<ActionBlock<'a>>,
    pub tables: Vec<TableBlock<'a>>,
    /// Name, size and initial value.
    pub registers: Vec<(Word<'a>, Word<'a>, Word<'a>)>,
    /// Name and size.
    pub meters: Vec<(Word<'a>, Word<'a>)>,
    pub rss: Vec<Word<'a>>,
    /// Name and size.
    pub counters: Vec<(Word<'a>, Word<'a>)>,
    /// Name and bytes.
    pub windows: Vec<(Word<'a>, Word<'a>)>,
    /// Name, how many, entries, and bytes of an entry.
    pub rings: Vec<[Word<'a>; 4]>,
    /// Name, size and type.
    pub digests: Vec<[Word<'a>; 3]>,
    pub apply: Option<(Word<'a>, Vec<Line<'a>>)>,
}

/// `struct NAME { … }`
#[derive(Debug)]
pub(super) struct StructBlock<'a> {
    pub name: Word<'a>,
    /// Type and name of each field.
    pub fields: Vec<(Word<'a>, Word<'a>)>,
}

/// `action NAME args none|instanceof TYPE { … }`
#[derive(Debug)]
pub(super) struct ActionBlock<'a> {
    pub name: Word<'a>,
    pub arguments: Option<Word<'a>>,
    pub body: Vec<Line<'a>>,
}

/// `table`, `learner` or `selector`.
#[derive(Debug)]
pub(super) struct TableBlock<'a> {
    pub kind: TableKind,
    pub name: Word<'a>,
    /// Field, and how it is matched where that is said.
    pub key: Vec<Line<'a>>,
    pub actions: Vec<Line<'a>>,
    /// The line, from the name of the action on.
    pub default: Option<Line<'a>>,
    pub size: Option<Word<'a>>,
    pub timeouts: Vec<Line<'a>>,
    pub group: Option<Word<'a>>,
    pub member: Option<Word<'a>>,
    pub groups_max: Option<Word<'a>>,
    pub members_max: Option<Word<'a>>,
}

/// What a block with a key declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableKind {
    Match,
    Learner,
    Selector,
}

/// What stands where a block begins.
const BEGINNINGS: &str = "`struct`, `header`, `metadata`, `action`, `table`, `selector`, \
    `learner`, `regarray`, `metarray`, `countarray`, `rss`, `window`, `ring`, `digest` or `apply`";

/// Reads all blocks.
pub(super) fn read<'a>(lines: &mut impl Iterator<Item = Line<'a>>) -> Result<Blocks<'a>, Wrong> {
    let mut blocks = Blocks::default();
    while let Some(line) = lines.next() {
        let first = line.first();
        match first.text {
            "struct" => blocks.structs.push(structure(&line, lines)?),
            "header" => {
                line.wants(2, "instanceof")?;
                line.ends_at(4)?;
                blocks.headers.push((line.at(1), line.at(3)));
            }
            "metadata" => {
                line.wants(1, "instanceof")?;
                line.ends_at(3)?;
                once(first, &mut blocks.metadata, line.at(2))?;
            }
            "action" => blocks.actions.push(action(&line, lines)?),
            "table" => blocks.tables.push(table(TableKind::Match, &line, lines)?),
            "learner" => blocks.tables.push(table(TableKind::Learner, &line, lines)?),
            "selector" => blocks.tables.push(table(TableKind::Selector, &line, lines)?),
            "regarray" => {
                line.wants(2, "size")?;
                line.wants(4, "initval")?;
                line.ends_at(6)?;
                blocks.registers.push((line.at(1), line.at(3), line.at(5)));
            }
            "metarray" => blocks.meters.push(sized(&line)?),
            "countarray" => blocks.counters.push(sized(&line)?),
            "window" => blocks.windows.push(sized(&line)?),
            "ring" => {
                line.wants(2, "count")?;
                line.wants(4, "size")?;
                line.wants(6, "entry")?;
                line.ends_at(8)?;
                blocks.rings.push([line.at(1), line.at(3), line.at(5), line.at(7)]);
            }
            "digest" => {
                line.wants(2, "size")?;
                line.wants(4, "instanceof")?;
                line.ends_at(6)?;
                blocks.digests.push([line.at(1), line.at(3), line.at(5)]);
            }
            "rss" => {
                line.ends_at(2)?;
                blocks.rss.push(line.at(1));
            }
            "apply" => {
                line.wants(1, "{")?;
                line.ends_at(2)?;
                let body = body(first, lines)?;
                once(first, &mut blocks.apply, (first, body))?;
            }
            "extobj" => return Err(Wrong::not_supported(first.at, "extern objects")),
            _ => return Err(first.expected(BEGINNINGS)),
        }
    }
    Ok(blocks)
}

/// `… NAME size N`
fn sized<'a>(line: &Line<'a>) -> Result<(Word<'a>, Word<'a>), Wrong> {
    line.wants(2, "size")?;
    line.ends_at(4)?;
    Ok((line.at(1), line.at(3)))
}

/// Keeps what may be said once.
fn once<'a, T>(word: Word<'a>, place: &mut Option<T>, value: T) -> Result<(), Wrong> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(word.unfit(format!("`{}` stands here for the second time", word.text))),
    }
}

/// The lines up to the brace that ends the block that `of` begins.
fn body<'a>(
    of: Word<'a>,
    lines: &mut impl Iterator<Item = Line<'a>>,
) -> Result<Vec<Line<'a>>, Wrong> {
    let mut body = Vec::new();
    for line in lines {
        if line.first().text == "}" {
            line.ends_at(1)?;
            return Ok(body);
        }
        body.push(line);
    }
    Err(of.unfit("the text ends before this block does; end it by a line with `}`"))
}

fn structure<'a>(
    line: &Line<'a>,
    lines: &mut impl Iterator<Item = Line<'a>>,
) -> Result<StructBlock<'a>, Wrong> {
    line.wants(2, "{")?;
    line.ends_at(3)?;
    let mut fields = Vec::new();
    for field in body(line.first(), lines)? {
        field.ends_at(2)?;
        fields.push((field.at(0), field.at(1)));
    }
    Ok(StructBlock { name: line.at(1), fields })
}

fn action<'a>(
    line: &Line<'a>,
    lines: &mut impl Iterator<Item = Line<'a>>,
) -> Result<ActionBlock<'a>, Wrong> {
    line.wants(2, "args")?;
    let brace = match line.at(3).text {
        "none" => 4,
        "instanceof" => 5,
        _ => return Err(line.at(3).expected("`none` or `instanceof`")),
    };
    line.wants(brace, "{")?;
    line.ends_at(brace + 1)?;
    let arguments = (brace == 5).then(|| line.at(4));
    Ok(ActionBlock { name: line.at(1), arguments, body: body(line.first(), lines)? })
}

/// Statements of a table, learner or selector, in that order.
const STATEMENTS: [&str; 3] = [
    "`key`, `actions`, `default_action`, `instanceof`, `pragma`, `hash`, `size` or `}`",
    "`key`, `actions`, `default_action`, `hash`, `size`, `timeout` or `}`",
    "`group_id`, `selector`, `member_id`, `n_groups_max`, `n_members_per_group_max` or `}`",
];

fn table<'a>(
    kind: TableKind,
    line: &Line<'a>,
    lines: &mut impl Iterator<Item = Line<'a>>,
) -> Result<TableBlock<'a>, Wrong> {
    line.wants(2, "{")?;
    line.ends_at(3)?;
    let mut block = TableBlock {
        kind,
        name: line.at(1),
        key: Vec::new(),
        actions: Vec::new(),
        default: None,
        size: None,
        timeouts: Vec::new(),
        group: None,
        member: None,
        groups_max: None,
        members_max: None,
    };
    while let Some(line) = lines.next() {
        if line.first().text == "}" {
            line.ends_at(1)?;
            return Ok(block);
        }
        statement(&mut block, &line, lines)?;
    }
    Err(line.first().unfit("the text ends before this block does; end it by a line with `}`"))
}

fn statement<'a>(
    block: &mut TableBlock<'a>,
    line: &Line<'a>,
    lines: &mut impl Iterator<Item = Line<'a>>,
) -> Result<(), Wrong> {
    use TableKind::{Learner, Match, Selector};
    let first = line.first();
    let mut list = |list: &mut Vec<Line<'a>>| -> Result<(), Wrong> {
        line.wants(1, "{")?;
        line.ends_at(2)?;
        if !list.is_empty() {
            return Err(first.unfit(format!("`{}` stands here for the second time", first.text)));
        }
        *list = body(first, lines)?;
        Ok(())
    };
    let one = |place: &mut Option<Word<'a>>| -> Result<(), Wrong> {
        line.ends_at(2)?;
        once(first, place, line.at(1))
    };
    match (block.kind, first.text) {
        (Match | Learner, "key") | (Selector, "selector") => list(&mut block.key),
        (Match | Learner, "actions") => list(&mut block.actions),
        (Match | Learner, "default_action") => once(first, &mut block.default, line.after(1)),
        (Match | Learner, "size") => one(&mut block.size),
        // Which engine, which hash and with what options is nothing that changes an answer: the
        // table's own are used.
        (Match, "instanceof" | "pragma") | (Match | Learner, "hash") => line.ends_at(2),
        (Learner, "timeout") => list(&mut block.timeouts),
        (Selector, "group_id") => one(&mut block.group),
        (Selector, "member_id") => one(&mut block.member),
        (Selector, "n_groups_max") => one(&mut block.groups_max),
        (Selector, "n_members_per_group_max") => one(&mut block.members_max),
        (kind, _) => Err(first.expected(STATEMENTS[kind as usize])),
    }
}
