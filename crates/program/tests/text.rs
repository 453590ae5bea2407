//! What is read, what is refused, and with what words.

use niclab_nic::text::Problem;
use niclab_program::{Kind, Program};

/// A program around a part of its main code and its declarations.
fn around(more: &str, apply: &str) -> String {
    format!(
        "struct eth_t {{\n\tbit<48> dst\n\tbit<48> src\n\tbit<16> type\n}}\n\
         struct wide_t {{\n\tbit<128> address\n\tbit<64> half\n\tvarbit<64> rest\n}}\n\
         struct meta_t {{\n\tbit<32> port\n\tbit<16> a\n\tbit<128> wide\n}}\n\
         struct args_t {{\n\tbit<32> port\n}}\n\
         header eth instanceof eth_t\nheader wide instanceof wide_t\n\
         metadata instanceof meta_t\nregarray regs size 10 initval 0x7\n\
         action go args instanceof args_t {{\n\tmov m.port t.port\n\treturn\n}}\n\
         action none args none {{\n\treturn\n}}\n\
         {more}\napply {{\n\trx m.port\n{apply}\n\ttx m.port\n}}\n"
    )
}

fn refused(text: &str) -> (String, String) {
    let error = Program::read(text).expect_err(text);
    let line = text.lines().nth(error.line() as usize - 1).unwrap_or_default();
    (error.problem().to_string(), line.trim().to_owned())
}

/// That each of these is refused with these words, at a line of its own.
fn are_refused(cases: &[(&str, &str)], around: impl Fn(&str) -> String) {
    for (wrong, said) in cases {
        let (problem, line) = refused(&around(wrong));
        assert!(problem.starts_with(said), "{problem}\nin place of {said}\nfor {wrong}");
        assert!(wrong.contains(&line), "{line} is not of {wrong}");
    }
}

#[test]
fn what_is_wrong_in_an_instruction_is_said_at_its_place() {
    let cases = [
        ("\tmov m.port", "expected a field, as `h.HEADER.FIELD` or `m.FIELD` or `t.FIELD`, found"),
        (
            "\tmov m.port 0x1ffffffffffffffff",
            "expected a number below 2^64, as 20, 0x14 or 024, found `0x1ffffffffffffffff`",
        ),
        ("\tmvo m.port 1", "expected an instruction, perhaps `mov`, found `mvo`"),
        ("\tlen m.port", "expected an instruction, perhaps `length`, found `len`"),
        ("\tjmpge L m.port 1", "expected an instruction, perhaps `jmpgt`, found `jmpge`"),
        ("\tfly", "expected an instruction, found `fly`"),
        ("\tmov m.prot 1", "expected a field of `meta_t`, perhaps `m.port`, found `m.prot`"),
        ("\tmov m.x 1", "expected a field of `meta_t`: a, port, wide, found `m.x`"),
        ("\tmov m.a h.eth.dest", "expected a field of `eth_t`, perhaps `h.eth.dst`, found"),
        ("\tmov m.a h.ether.dst", "expected a field of a header, perhaps `h.eth`, found"),
        ("\tmov m.a h.x.dst", "expected a field of a header: eth, wide, found `h.x.dst`"),
        ("\tmov m.a h.eth", "expected a field of a header, as `h.HEADER.FIELD`, found"),
        ("\tjmpa L goo", "expected the name of an action, perhaps `go`, found `goo`"),
        ("\tjmpa L deny", "expected the name of an action: go, none, found `deny`"),
        ("\tmov m.port 1 2", "expected the end of the line, found `2`"),
        ("\tmov m.port t.port", "there are no arguments here"),
        ("\tadd m.wide 1", "a field of at most 64 bits; this has 128"),
        ("\tmovh m.port h.eth.dst", "one field has to have 128 bits, the other 64"),
        ("\textract h.wide", "expected a field, as `m.FIELD`"),
        ("\textract h.ipv4", "expected a header, as `h.NAME`: eth, wide, found `h.ipv4`"),
        ("\textract h.wied", "expected a header, as `h.NAME`, perhaps `h.wide`, found `h.wied`"),
        (
            "\tmov h.wide.rest 1",
            "a field of variable length can be extracted, hashed and sent only",
        ),
        ("\tckadd h.eth.dst h.eth.type", "a checksum has 16 bits; this has 48"),
        ("\tjmp NOWHERE", "expected a label of this block, and there is none, found `NOWHERE`"),
        ("\tjmp OTER\nOTHER : drop", "expected a label of this block, perhaps `OTHER`, found"),
        ("BACK : mov m.a 1\n\tjmp BACK", "not supported: a jump back"),
        ("A : mov m.a 1\nA : mov m.a 2", "there is another label `A`"),
        ("\trx m.port", "a packet is received by the first instruction of `apply` alone"),
        ("\treturn", "`return` stands in actions alone"),
        ("\tlearn go m.port m.a", "`learn` stands in actions alone"),
        ("\textern e.obj.func", "not supported: extern objects and functions"),
        ("\tregrd m.a nothing 0", "expected the name of a `regarray`: regs, found `nothing`"),
        ("\thash md5 m.a m.port m.a", "expected `crc16`, `crc32`"),
        ("\thash crc32 m.a m.a m.port", "the last field stands behind the first"),
    ];
    are_refused(&cases, |apply| around("", apply));
}

#[test]
fn what_is_wrong_in_a_declaration_is_said_at_its_place() {
    let cases = [
        ("struct eth_t {\n\tbit<8> x\n}", "there is another `eth_t`; choose another name"),
        ("struct x {\n\tbit<7> x\n}", "expected a number of bits that is a multiple of 8"),
        (
            "struct x {\n\tvarbit<8> x\n\tbit<8> y\n}",
            "only the last field can have a variable length",
        ),
        (
            "header x instanceof nothing",
            "expected a type of a `struct`: args_t, eth_t, meta_t, wide_t",
        ),
        ("extobj x instanceof y", "not supported: extern objects"),
        ("metadata instanceof args_t", "`metadata` stands here for the second time"),
        (
            "action x args none {\n\tmov m.a 1\n}",
            "the last instruction has to be `return`, `tx`, `steer`, `reply` or `drop`",
        ),
        ("action x args none {\n\ttable t\n\treturn\n}", "expected the name of a table"),
        (
            "action x args instanceof wide_t {\n\treturn\n}",
            "arguments cannot have a field of variable length",
        ),
        (
            concat!(
                "learner l {\nkey {\nm.a\n}\nactions {\nnone\n}\n",
                "default_action none args none\nsize 1\n}",
            ),
            "a learner has 1 to 16 timeouts; this has 0",
        ),
        ("selector s {\n\tselector {\n\t\tm.a\n\t}\n}", "`s` does not say its `group_id`"),
    ];
    are_refused(&cases, |more| around(more, ""));
}

#[test]
fn what_is_wrong_in_a_table_is_said_at_its_place() {
    let cases = [
        (
            "\tactions {\n\t\tgo\n\t}\n\tdefault_action go args none",
            "expected values of port, found `none`",
        ),
        (
            "\tactions {\n\t\tgo\n\t}\n\tdefault_action go args port 0x100000000",
            "expected a number of 32 bits for `port`",
        ),
        (
            "\tactions {\n\t\tgo\n\t}\n\tdefault_action none args none",
            "expected an action of this table that may be the default",
        ),
        (
            "\tactions {\n\t\tnone @tableonly\n\t}\n\tdefault_action none args none",
            "expected an action of this table that may be the default",
        ),
        (
            "\tkey {\n\t\tm.a lpm\n\t\tm.port wildcard\n\t}",
            "beside an `lpm` field, all others are `exact`",
        ),
        ("\tkey {\n\t\tm.a ternary\n\t}", "expected `exact`, `lpm` or `wildcard`, found `ternary`"),
        ("\tkey {\n\t\tm.a exact\n\t\tm.a exact\n\t}", "`m.a` is in this key already"),
        ("\tsiez 10", "expected `key`, `actions`"),
    ];
    are_refused(&cases, |inner| around(&format!("table t {{\n{inner}\n}}"), ""));
}

#[test]
fn what_would_reach_outside_of_an_applications_memory_is_refused() {
    let memory = "window w size 20\nring q count 2 size 3 entry 20\ncountarray c size 4\n\
                  struct d_t {\n\tbit<32> port\n\tbit<16> a\n}\ndigest d size 4 instanceof d_t";
    let cases = [
        ("\tdma_write_at w 7 h.eth", "the window has 20 bytes, and these end behind it"),
        ("\tdma_write_at w 0 payload 21", "the window has 20 bytes, and these end behind it"),
        ("\tdma_write_at w 0xffffffffffffffff m.a", "the window has 20 bytes, and these end"),
        ("\tdma_read_at w 5 m.wide", "the window has 20 bytes, and these end behind it"),
        ("\tdma_read_at w 0 t.port", "there are no arguments here"),
        ("\tdma_read_at w 0 payload 1", "expected a field, as `h.HEADER.FIELD` or `m.FIELD`"),
        ("\tdma_read_at w 0 h.wide", "a header without a field of variable length"),
        ("\tdma_read_at w 0", "expected a field or a header"),
        ("\tdma_write_at x 0 m.a", "expected the name of a `window`: w, found `x`"),
        ("\tdma_write q 2 m.a", "there are 2 rings, from 0 on"),
        ("\tdma_write q 1 h.eth h.eth", "an entry has 20 bytes, and these are 28"),
        ("\tdma_write q 1", "expected a field, a header or `payload`"),
        ("\tdma_write q 1 payload", "expected a field, as `m.FIELD` or `t.FIELD`, or a number"),
        ("\tdma_write x 1 m.a", "expected the name of a `ring`: q, found `x`"),
        ("\tcount c", "expected"),
        ("\tcount regs 0", "expected the name of a `countarray`, not of a `regarray`, found"),
        ("\tregadd c 0 1", "expected the name of a `regarray`, not of a `countarray`, found `c`"),
        ("\tmeter c 0 0 0 m.a", "expected the name of a `metarray`, not of a `countarray`"),
        ("\tdigest d m.a", "fields of 32, 16 bits have to stand from here on"),
        ("\tdigest d h.eth.dst", "expected a field, as `m.FIELD`"),
        ("\treply 1", "expected the end of the line, found `1`"),
        ("\tmulticast", "expected a field, as `m.FIELD` or `t.FIELD`, or a number"),
        ("\tmulticast h.eth.dst", "expected a field, as `m.FIELD` or `t.FIELD`"),
        ("\tmulticast 1 2", "expected the end of the line, found `2`"),
        ("\tregadd m.wide regs 0 1", "a field of at most 64 bits; this has 128"),
        ("\tlength h.eth.type", "expected a field, as `m.FIELD`"),
    ];
    are_refused(&cases, |apply| around(memory, apply));
    for (wrong, said) in [
        ("window w size 0", "expected bytes"),
        ("window w", "expected `size`"),
        ("ring q count 257 size 4 entry 8", "expected how many"),
        ("ring q count 1 size 4", "expected `entry`"),
        ("ring q count 1 size 4 entry 16385", "expected bytes of an entry"),
        ("digest d size 4 instanceof wide_t", "a digest cannot have a field of variable length"),
        ("digest d size 4 instanceof none_t\nstruct none_t {\n}", "a digest has a field at least"),
        ("digest d size 4 instanceof x", "expected a type of a `struct`: args_t,"),
        ("countarray c size 0", "expected a size"),
    ] {
        let (problem, line) = refused(&around(wrong, ""));
        assert!(problem.starts_with(said), "{problem}\nin place of {said}");
        assert!(wrong.starts_with(&line), "{line}");
    }
}

#[test]
fn a_text_without_its_main_parts_is_refused() {
    assert!(refused("").0.contains("metadata"));
    let open = "the text ends before this block does; end it by a line with `}`";
    assert_eq!(refused("struct x {\n\tbit<8> x"), (open.to_owned(), "struct x {".to_owned()));
    let without = "struct m {\n\tbit<8> a\n}\nmetadata instanceof m\n";
    assert!(refused(without).0.contains("apply"));
    let falls_off = format!("{without}apply {{\n\trx m.a\n}}\n");
    assert_eq!(
        refused(&falls_off).0,
        "the last instruction has to be `tx`, `steer`, `reply` or `drop`"
    );
    let error = Program::read(&" ".repeat(5 << 20)).expect_err("too long");
    assert!(matches!(error.problem(), Problem::Unfit { .. }));
}

#[test]
fn what_learns_is_an_action_of_a_learner_and_learns_what_is_its_own() {
    let learner = |actions: &str| {
        format!(
            "action learns args none {{\n\tlearn go m.port m.a\n\treturn\n}}\n\
             learner l {{\n\tkey {{\n\t\tm.a\n\t}}\n\tactions {{\n{actions}\n\t}}\n\
             \tdefault_action learns args none\n\tsize 4\n\ttimeout {{\n\t\t1\n\t}}\n}}"
        )
    };
    assert!(Program::read(&around(&learner("\t\tlearns\n\t\tgo"), "")).is_ok());
    for actions in ["\t\tlearns", "\t\tlearns\n\t\tgo @defaultonly"] {
        let (problem, line) = refused(&around(&learner(actions), ""));
        assert!(problem.starts_with("`learns` learns `go`, which has to be"), "{problem}");
        assert_eq!(line, "learns");
    }
    let plain = "action forgets args none {\n\tforget\n\treturn\n}\n\
                 table t {\n\tactions {\n\t\tforgets\n\t}\n\tdefault_action forgets args none\n}";
    let (problem, _) = refused(&around(plain, ""));
    assert_eq!(problem, "`forgets` learns, which is for the actions of a learner");
}

#[test]
fn what_a_program_asks_for_has_limits() {
    let emits = "\temit h.eth\n".repeat(65);
    let said = "a packet emits 64 headers at most, and here 65";
    assert_eq!(refused(&around("", &emits)).0, said);
    let action = format!("action long args none {{\n{}\treturn\n}}", "\tmov m.a 1\n".repeat(255));
    let table = "table t {\n\tactions {\n\t\tlong\n\t}\n\tdefault_action long args none\n}\n";
    let apply = |count: usize| around(&format!("{action}\n{table}"), &"\ttable t\n".repeat(count));
    assert!(Program::read(&apply(254)).is_ok());
    let (problem, _) = refused(&apply(256));
    let work = "the work of a packet is that of 65536 instructions at most";
    assert!(problem.starts_with(work), "{problem}");
    let again = apply(20).replace("\ttable t\n\n", "\trecirculate\n\n");
    assert!(refused(&again).0.contains("here 8"), "{}", refused(&again).0);
    // Few instructions, each over 4,096 bytes.
    let type_of = "struct large_t {\n\tbit<32768> a\n}\nheader large instanceof large_t\n";
    let hashes = |hash: &str, count: usize| {
        around(type_of, &format!("\thash {hash} m.a h.large.a h.large.a\n").repeat(count))
    };
    for (hash, most) in [("crc32", 145), ("crc16", 39)] {
        assert!(Program::read(&hashes(hash, most)).is_ok(), "{hash}");
        let (problem, _) = refused(&hashes(hash, most + 1));
        assert!(problem.starts_with(work), "{problem}");
    }
    let large = "regarray big size 0x4000000 initval 0\n".to_owned();
    let large = large.clone() + &large.replace("big", "bigger") + &large.replace("big", "third");
    let (problem, _) = refused(&around(&large, ""));
    assert!(
        problem.starts_with("arrays, learners and digests of a program need 1024 MiB"),
        "{problem}"
    );
    let learner = "learner l {\n\tkey {\n\t\tm.a\n\t}\n\tactions {\n\t\tnone\n\t}\n\
                   \tdefault_action none args none\n\tsize 0x20000000\n\ttimeout {\n\t\t1\n\t}\n}";
    assert!(refused(&around(learner, "")).0.starts_with("arrays, learners and digests"));
    let many: String = (0..257).map(|n| format!("regarray r{n} size 1 initval 0\n")).collect();
    assert!(refused(&around(&many, "")).0.contains("256 register arrays"));
}

#[test]
fn a_label_has_an_instruction_behind_it_and_an_instruction_may_have_several() {
    let last = "\tjmp L\n\ttx m.port\nL :\tregprefetch regs 0";
    let text = around("", last).replace("\n\ttx m.port\n}", "\n}");
    let (problem, _) = refused(&text);
    assert_eq!(problem, "an instruction has to stand behind the label `L`");
    let two = "\tjmp B\nA :\tregprefetch regs 0\nB :\tmov m.a 1\n\tjmp C\nC :\tmov m.a 2";
    let program = Program::read(&around("", two)).unwrap();
    assert_eq!(Program::read(&program.to_string()).as_ref(), Ok(&program), "{program}");
}

#[test]
fn a_colon_that_sticks_to_its_label_is_said_where_it_stands() {
    let of = |label: &str| around("", &format!("\tjmpeq OTHER m.a 1\n\tdrop\n\t{label} mov m.a 1"));
    for (label, column, said) in [
        (
            "OTHER:",
            2,
            "expected `OTHER :`, with a blank before the colon and behind, found `OTHER:`",
        ),
        ("OTHER:x", 2, "expected `OTHER :`, with a blank before the colon and behind, found"),
        ("OTHER :x", 8, "expected `:`, with a blank behind it, found `:x`"),
    ] {
        let text = of(label);
        let error = Program::read(&text).expect_err(label);
        assert!(error.problem().to_string().starts_with(said), "{label}: {error}");
        let line = text.lines().nth(error.line() as usize - 1).unwrap();
        assert!(line.contains(label), "{line}");
        assert_eq!(error.column(), column, "{label}: {error}");
    }
    assert!(Program::read(&of("OTHER :")).is_ok());
    assert!(Program::read(&of("OTHER\t:")).is_ok());
}

/// What is said of a program around a part of its code, without the declarations that nothing of
/// it asks.
fn warned(more: &str, apply: &str) -> Vec<String> {
    let uses =
        "table uses {\n\tactions {\n\t\tgo\n\t\tnone\n\t}\n\tdefault_action none args none\n}";
    let text = around(&format!("{uses}\n{more}"), &format!("\ttable uses\n{apply}"));
    let (program, warnings) = Program::read_with_warnings(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(Program::read(&text).as_ref(), Ok(&program));
    let said = |of: &niclab_program::Warning| {
        let line = text.lines().nth(of.line - 1).unwrap();
        let from: String = line.chars().skip(of.column - 1).collect();
        format!("{}: {}", from.split_whitespace().next().unwrap_or_default(), of.reason)
    };
    warnings.iter().map(said).collect()
}

#[test]
fn a_comparison_that_is_always_the_same_is_warned_of() {
    let jump = |text: &str| warned("", &format!("\t{text}\n\tdrop\n\tL : mov m.a 1"));
    for (text, word, jumps) in [
        ("jmpeq L m.a 0x10000", "0x10000", "never"),
        ("jmpneq L m.a 65536", "65536", "always"),
        ("jmplt L m.a 65536", "65536", "always"),
        ("jmpgt L m.a 65536", "65536", "never"),
        ("jmplt L 65536 m.a", "65536", "never"),
        ("jmpgt L 65536 m.a", "65536", "always"),
    ] {
        let said =
            format!("{word}: `m.a` has 16 bits, and {word} has more: the jump is {jumps} taken");
        assert_eq!(jump(text), [said], "{text}");
    }
    for text in [
        "jmpeq L m.a 65535",
        "jmpeq L h.wide.half 0xffffffffffffffff",
        "jmplt L m.a m.port",
        "jmpgt L m.port 65536",
    ] {
        assert_eq!(jump(text), <[String; 0]>::default(), "{text}");
    }
}

#[test]
fn what_is_never_reached_or_asked_is_warned_of() {
    let none = <[String; 0]>::default();
    let reason = "this is never reached: the instruction before it goes elsewhere or ends, and no \
                  jump leads here";
    // Each stretch once, where it begins; `regprefetch` is no instruction.
    let stretch = "\tjmp L\n\tregprefetch regs 0\n\tmov m.a 1\n\tmov m.a 2\n\tL : mov m.a 3";
    assert_eq!(warned("", stretch), [format!("mov: {reason}")]);
    let dead = "\tdrop\n\tA : jmp L\n\tmov m.a 2\n\tL : mov m.a 3";
    assert_eq!(warned("", dead), [format!("jmp: {reason}")], "what jumps here is never reached");
    assert_eq!(warned("", "\tjmpeq L m.a 1\n\tdrop\n\tL : mov m.a 3"), none);
    assert_eq!(warned("", "\tdrop"), none, "the last instruction has to stand there");
    assert_eq!(warned("", "\trecirculate"), none, "it goes on behind it");
    let action = |code: &str| {
        let table = "table t {\n\tactions {\n\t\tx\n\t}\n\tdefault_action x args none\n}";
        warned(&format!("action x args none {{\n{code}\n\treturn\n}}\n{table}"), "\ttable t")
    };
    assert_eq!(action("\tmov m.a 1"), none);
    assert_eq!(action("\tdrop\n\tmov m.a 1"), [format!("mov: {reason}")]);
    let alone = "action alone args none {\n\treturn\n}";
    assert_eq!(warned(alone, ""), ["alone: no table has the action `alone`"]);
    let table = |name: &str, size: u32| {
        format!(
            "table {name} {{\n\tkey {{\n\t\tm.a exact\n\t}}\n\tactions {{\n\t\tnone\n\t}}\n\
             \tdefault_action none args none\n\tsize {size}\n}}"
        )
    };
    assert_eq!(warned(&table("t", 1), "\ttable t"), none);
    let said = ["t: nothing asks the table `t`: `table t` does"];
    assert_eq!(warned(&table("t", 1), ""), said);
    let said = ["0: the table `t` has room for no entry: give it a size from 1 on"];
    assert_eq!(warned(&table("t", 0), "\ttable t"), said);
}

#[test]
fn a_line_of_any_length_is_shown_around_the_word() {
    let text = format!("{}wrong {}", " ".repeat(70_000), "more ".repeat(20_000));
    let error = Program::read(&text).expect_err("no block");
    assert_eq!(error.column(), 70_001);
    let shown = error.to_string();
    assert!(shown.lines().all(|line| line.chars().count() < 300), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    let place = |line: &str, word: &str| line.find(word).map(|at| line[..at].chars().count());
    assert_eq!(place(lines[1], "wrong"), place(lines[2], "^"), "{shown}");
    let long = format!("struct {} {{\n}}\n", "x".repeat(100_000));
    let shown = Program::read(&long).expect_err("a name that is too long").to_string();
    assert!(shown.len() < 1_000, "{shown}");
}

#[test]
fn the_line_is_shown_with_a_caret_under_the_word() {
    let error = Program::read("struct a {\n\tbit<9> x\n}\n").expect_err("9 bits");
    let shown = error.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("line 2, column 2: expected a number of bits"), "{shown}");
    assert_eq!(lines[1..], [" bit<9> x", " ^^^^^^"]);
}

#[test]
fn what_is_read_is_what_was_written() {
    let more = "table t {\n\tkey {\n\t\tm.wide wildcard\n\t\th.eth.dst exact\n\t}\n\
                \tactions {\n\t\tgo\n\t\tnone @defaultonly\n\t}\n\
                \tdefault_action go args port 0x12345678 const\n\tinstanceof exact\n\
                \tpragma some\n\thash crc32\n\tsize 010\n}";
    let text = around(more, "\tregprefetch regs 3\nL :\tjmpneq M 0x5 m.port ; why\nM :\ttable t");
    let program = Program::read(&text).unwrap();
    assert_eq!(program.registers[0].len, 16, "rounded up");
    let table = &program.tables[0];
    let Kind::Match { key, actions } = &table.kind else { panic!("{table:?}") };
    assert_eq!((key.len(), table.size, actions.is_default_const), (2, 8, true));
    assert_eq!(actions.default.arguments, [[0x12, 0x34, 0x56, 0x78]]);
    assert_eq!(program.apply.steps.len(), 4, "a prefetch is nothing");
    let again = program.to_string();
    assert_eq!(Program::read(&again).unwrap(), program, "{again}");
}
