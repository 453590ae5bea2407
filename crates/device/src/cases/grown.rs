//! Programs of which one thing grows.

use std::fmt::Write as _;

use niclab_program::{Change, ChangeError, Command, Entry, Invocation, Part, Program};

use super::{Case, Loaded, mix};

/// The common start of all programs.
const HEADS: &str = "\
struct ethernet_h {
	bit<48> dst
	bit<48> src
	bit<16> type
}

struct ipv4_h {
	bit<8> version_ihl
	bit<8> tos
	bit<16> length
	bit<16> id
	bit<16> fragment
	bit<8> ttl
	bit<8> protocol
	bit<16> checksum
	bit<32> src
	bit<32> dst
}

header ethernet instanceof ethernet_h
header ipv4 instanceof ipv4_h
";

/// The text of a program that grows.
pub(super) fn text(of: Loaded) -> String {
    let mut out = String::new();
    // A string takes whatever is written to it.
    let _ = match of.case {
        Case::Headers => headers(&mut out, of.count),
        Case::Exact | Case::Lpm | Case::Wildcard => tables(&mut out, of),
        _ => instructions(&mut out, of),
    };
    out
}

/// Ethernet, and behind it tags of 4 bytes: each taken off, its type looked at, and put on again.
fn headers(out: &mut String, count: u32) -> std::fmt::Result {
    let tags = 1..count;
    writeln!(out, "; {count} headers, taken off and put on.\n")?;
    out.push_str("struct ethernet_h {\n\tbit<48> dst\n\tbit<48> src\n\tbit<16> type\n}\n\n");
    out.push_str("struct tag_h {\n\tbit<16> tci\n\tbit<16> type\n}\n\n");
    out.push_str("header ethernet instanceof ethernet_h\n");
    for tag in tags.clone() {
        writeln!(out, "header tag{tag} instanceof tag_h")?;
    }
    out.push_str("\nstruct metadata_t {\n\tbit<32> port\n}\n\nmetadata instanceof metadata_t\n\n");
    out.push_str("apply {\n\trx m.port\n\textract h.ethernet\n");
    let mut before = "ethernet".to_owned();
    for tag in tags.clone() {
        writeln!(out, "\tjmpneq OTHER h.{before}.type 0x8100\n\textract h.tag{tag}")?;
        before = format!("tag{tag}");
    }
    writeln!(out, "\tjmpneq OTHER h.{before}.type 0x0800\n\temit h.ethernet")?;
    for tag in tags {
        writeln!(out, "\temit h.tag{tag}")?;
    }
    out.push_str("\ttx m.port\n\tOTHER : drop\n}\n");
    Ok(())
}

/// Tables in a row that are asked for the same addresses.
fn tables(out: &mut String, of: Loaded) -> std::fmt::Result {
    let Loaded { case, count, entries } = of;
    let name = case.name();
    writeln!(out, "; {count} tables in a row, {entries} entries each, {name}.\n\n{HEADS}")?;
    out.push_str("struct metadata_t {\n\tbit<32> port\n\tbit<32> value\n}\n\n");
    out.push_str("metadata instanceof metadata_t\n\nstruct value_args {\n\tbit<32> value\n}\n\n");
    out.push_str("action found args instanceof value_args {\n\tmov m.value t.value\n\treturn\n}\n");
    out.push_str("\naction lost args none {\n\tdrop\n}\n\n");
    let key = match case {
        Case::Wildcard => "\t\th.ipv4.src wildcard\n\t\th.ipv4.dst wildcard".to_owned(),
        _ => format!("\t\th.ipv4.dst {name}"),
    };
    for table in 0..count {
        writeln!(out, "table t{table} {{\n\tkey {{\n{key}\n\t}}")?;
        out.push_str("\tactions {\n\t\tfound\n\t\tlost\n\t}\n");
        writeln!(out, "\tdefault_action lost args none\n\tsize {entries}\n}}\n")?;
    }
    out.push_str("apply {\n\trx m.port\n\textract h.ethernet\n\textract h.ipv4\n");
    for table in 0..count {
        writeln!(out, "\ttable t{table}")?;
    }
    out.push_str("\temit h.ethernet\n\temit h.ipv4\n\ttx m.port\n}\n");
    Ok(())
}

/// Fields that instructions go round.
const FIELDS: u32 = 8;

/// Registers of each array: few enough that the times are those of the instruction, and not of
/// memory.
const REGISTERS: u32 = 1_024;

/// An action of so many instructions, run for every packet. Each needs what the one before it did,
/// or changes memory, so that none can be left out.
fn instructions(out: &mut String, of: Loaded) -> std::fmt::Result {
    let Loaded { case, count, .. } = of;
    writeln!(out, "; An action of {count} instructions: {}.\n\n{HEADS}", case.name())?;
    out.push_str("struct metadata_t {\n\tbit<32> port\n\tbit<32> index\n");
    for field in 0..FIELDS {
        writeln!(out, "\tbit<32> f{field}")?;
    }
    out.push_str("}\n\nmetadata instanceof metadata_t\n\n");
    if case == Case::Registers {
        for array in 0..FIELDS {
            writeln!(out, "regarray r{array} size {REGISTERS} initval 0")?;
        }
        out.push('\n');
    }
    out.push_str("action work args none {\n");
    for number in 0..count {
        let (to, from) = ((number + 1) % FIELDS, number % FIELDS);
        match case {
            Case::Moves => writeln!(out, "\tmov m.f{to} m.f{from}")?,
            Case::Adds => writeln!(out, "\tadd m.f{to} m.f{from}")?,
            Case::Checksums if number % 2 == 0 => {
                writeln!(out, "\tcksub h.ipv4.checksum h.ipv4.dst")?;
            }
            Case::Checksums => writeln!(out, "\tckadd h.ipv4.checksum h.ipv4.dst")?,
            _ => writeln!(out, "\tregadd r{from} m.index 1")?,
        }
    }
    out.push_str("\treturn\n}\n\ntable works {\n\tactions {\n\t\twork\n\t}\n");
    out.push_str("\tdefault_action work args none const\n}\n\n");
    out.push_str("apply {\n\trx m.port\n\textract h.ethernet\n\textract h.ipv4\n");
    // SWX leaves in metadata what the last packet had there.
    match case {
        Case::Moves | Case::Adds => (0..FIELDS).try_for_each(|field| {
            writeln!(out, "\tmov m.f{field} h.ipv4.{}", ["src", "dst"][field as usize % 2])
        })?,
        _ => out.push_str("\tmov m.index h.ipv4.dst\n"),
    }
    out.push_str("\ttable works\n");
    // What the last of them made leaves with the packet.
    if matches!(case, Case::Moves | Case::Adds) {
        writeln!(out, "\tmov h.ipv4.src m.f{}", count % FIELDS)?;
    }
    out.push_str("\temit h.ethernet\n\temit h.ipv4\n\ttx m.port\n}\n");
    Ok(())
}

/// Lengths of prefixes, in turn: most of 24 bits, as in tables of the Internet. Each has room for
/// its share of the most entries.
const LENGTHS: [u32; 8] = [24, 22, 24, 23, 24, 21, 24, 32];

/// An address and the mask of the entry of this number. Different entries have different keys: a
/// number is in the bits that all masks of its kind have.
pub(super) fn key(case: Case, number: u32) -> ([u32; 2], [u32; 2]) {
    let lane = number as usize % LENGTHS.len();
    match case {
        Case::Exact => ([0, scattered(number, 32)], [0, u32::MAX]),
        Case::Lpm => {
            let bits = LENGTHS[lane];
            let address = scattered(number, bits) << (32 - bits);
            ([0, address], [0, u32::MAX << (32 - bits)])
        }
        _ => {
            // One of the eight half bytes does not count; the source says which.
            let hole = !(0xf << (4 * lane));
            let (dst, src) = (scattered(number, 32), 0x0a00_0000 | number);
            ([src, dst & hole], [u32::MAX, hole])
        }
    }
}

/// A number of so many bits in another order: different ones stay different.
fn scattered(number: u32, bits: u32) -> u32 {
    let mask = u32::MAX >> (32 - bits);
    // Odd factors and shifts of the upper half to the lower can be undone.
    let number = number.wrapping_mul(0x9e37_79b1) & mask;
    let number = (number ^ number >> (bits / 2)) & mask;
    number.wrapping_mul(0x85eb_ca6b) & mask
}

/// The commands that fill the tables.
pub(super) fn entries(of: Loaded, program: &Program) -> Result<Vec<Command>, ChangeError> {
    let mut all = Vec::with_capacity(of.count as usize * of.entries as usize);
    for table in 0..of.count {
        let number = program.table_number(&format!("t{table}"))?;
        let found = program.tables[number].kind.actions().map_or(0, |of| of.of[0].0);
        for entry in 0..of.entries {
            let ([src, dst], [src_mask, dst_mask]) = key(of.case, entry);
            let part = |value: u32, mask: u32| {
                Part::masked(&value.to_be_bytes(), mask.to_be_bytes().to_vec())
            };
            let key = match of.case {
                Case::Wildcard => vec![part(src, src_mask), part(dst, dst_mask)],
                _ => vec![part(dst, dst_mask)],
            };
            let value = mix(u64::from(table) << 32 | u64::from(entry)) as u32;
            let does = Invocation { action: found, arguments: vec![value.to_be_bytes().to_vec()] };
            let entry = Entry { key, priority: 0, does };
            all.push(Command::Change(Change::Add { table: number, entry }));
        }
    }
    Ok(all)
}
