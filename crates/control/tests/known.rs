//! The JSON of each request and each response: other people's programs rely on it.

use niclab_control::{
    ApplicationCounters, ApplicationStatus, CaptureState, CardCounters, ControlError, CoreCounters,
    DefaultAction, DigestField, ExternalQueueCounters, FlowDone, ListedRule, PortCounters,
    QueueCounters, Request, Response, RingShape, TableEntries, TableState, TextFile, Width,
    WindowShape,
};

/// It is written as `json`, and read from it.
#[track_caller]
fn asks(request: Request, json: &str) {
    assert_eq!(request.line(), json);
    assert_eq!(Request::read(json).unwrap(), request);
}

#[track_caller]
fn says(response: Response, json: &str) {
    assert_eq!(response.line(), json);
    assert_eq!(Response::read(json).unwrap(), response);
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// The application of a request.
fn keeper() -> Option<String> {
    Some(text("keeper"))
}

#[test]
fn requests_of_the_card() {
    asks(Request::Applications { name: None }, r#"{"request":"applications"}"#);
    asks(Request::Applications { name: keeper() }, r#"{"request":"applications","name":"keeper"}"#);
    asks(
        Request::CaptureBegin { port: 0, file: text("a.pcap"), count: None },
        r#"{"request":"capture_begin","port":0,"file":"a.pcap"}"#,
    );
    asks(
        Request::CaptureBegin { port: 0, file: text("a.pcap"), count: Some(5) },
        r#"{"request":"capture_begin","port":0,"file":"a.pcap","count":5}"#,
    );
    asks(Request::CaptureEnd { port: 1 }, r#"{"request":"capture_end","port":1}"#);
    asks(Request::CaptureState { port: 1 }, r#"{"request":"capture_state","port":1}"#);
    asks(Request::Counters {}, r#"{"request":"counters"}"#);
    asks(
        Request::Flow { command: text("flow list 0") },
        r#"{"request":"flow","command":"flow list 0"}"#,
    );
    asks(Request::Rss { port: 0, change: None }, r#"{"request":"rss","port":0}"#);
    asks(
        Request::Rss { port: 0, change: Some(text("queues 0 1 end")) },
        r#"{"request":"rss","port":0,"change":"queues 0 1 end"}"#,
    );
    asks(Request::Stop {}, r#"{"request":"stop"}"#);
}

#[test]
fn requests_of_a_program() {
    let file = |name: &str| TextFile { name: text(name), text: text("{}") };
    asks(
        Request::ProgramCounter { application: keeper(), array: text("seen"), index: 1 },
        r#"{"request":"program_counter","application":"keeper","array":"seen","index":1}"#,
    );
    asks(
        Request::ProgramDigests { application: None, digest: text("told") },
        r#"{"request":"program_digests","digest":"told"}"#,
    );
    asks(
        Request::ProgramLoad { application: None, program: file("a.spec"), tables: None },
        r#"{"request":"program_load","program":{"name":"a.spec","text":"{}"}}"#,
    );
    asks(
        Request::ProgramLoad { application: None, program: file("a"), tables: Some(file("b")) },
        concat!(
            r#"{"request":"program_load","program":{"name":"a","text":"{}"},"#,
            r#""tables":{"name":"b","text":"{}"}}"#
        ),
    );
    asks(Request::ProgramNone { application: None }, r#"{"request":"program_none"}"#);
    asks(
        Request::ProgramRegister { application: None, array: text("count"), index: 2 },
        r#"{"request":"program_register","array":"count","index":2}"#,
    );
    asks(
        Request::ProgramRing { application: None, ring: text("events"), index: 0 },
        r#"{"request":"program_ring","ring":"events","index":0}"#,
    );
    asks(
        Request::ProgramShow { application: keeper() },
        r#"{"request":"program_show","application":"keeper"}"#,
    );
    let window = |width| Request::ProgramWindow {
        application: None,
        window: text("items"),
        offset: 8,
        count: 1,
        width,
    };
    asks(window(None), r#"{"request":"program_window","window":"items","offset":8,"count":1}"#);
    asks(
        window(Some(Width::U64)),
        r#"{"request":"program_window","window":"items","offset":8,"count":1,"width":"u64"}"#,
    );
}

#[test]
fn requests_of_tables() {
    asks(
        Request::TableCommand { application: None, command: text("delete types type:6") },
        r#"{"request":"table_command","command":"delete types type:6"}"#,
    );
    asks(Request::TableFile { application: None, table: None }, r#"{"request":"table_file"}"#);
    let load = |replace| Request::TableLoad { application: None, tables: text("{}"), replace };
    asks(load(false), r#"{"request":"table_load","tables":"{}"}"#);
    asks(load(true), r#"{"request":"table_load","tables":"{}","replace":true}"#);
    asks(
        Request::TableShow { application: keeper(), table: Some(text("routes")) },
        r#"{"request":"table_show","application":"keeper","table":"routes"}"#,
    );
    asks(
        Request::TableTransaction { application: None, commands: vec![text("a"), text("b")] },
        r#"{"request":"table_transaction","commands":["a","b"]}"#,
    );
}

#[test]
fn what_is_no_request_is_refused_with_what_is_wrong() {
    for (line, reason) in [
        ("", r#"expected a JSON object, such as {"request":"counters"}"#),
        ("counters", "expected a JSON object"),
        (r#"["counters"]"#, "expected a JSON object"),
        ("{", "EOF while parsing an object"),
        ("{}", "missing field `request`"),
        (r#"{"request":"counters"} x"#, "trailing characters"),
        (r#"{"request":"fly"}"#, "unknown variant `fly`, expected one of `applications`"),
        (r#"{"request":"counters","now":true}"#, "unknown field `now`"),
        (r#"{"request":"capture_state"}"#, "missing field `port`"),
        (r#"{"request":"capture_state","port":-1}"#, "invalid value: integer `-1`, expected u16"),
        (r#"{"request":"capture_state","port":65536}"#, "integer `65536`, expected u16"),
        (r#"{"request":"flow","command":7}"#, "invalid type: integer `7`, expected a string"),
        (r#"{"request":"rss","port":0,"chnage":"x"}"#, "unknown field `chnage`"),
        (
            r#"{"request":"program_window","window":"w","offset":0,"count":1,"width":"u128"}"#,
            "unknown variant `u128`, expected one of `u8`, `u16`, `u32`, `u64`",
        ),
    ] {
        let error = Request::read(line).unwrap_err();
        assert!(matches!(error, ControlError::Request { .. }), "{line}: {error:?}");
        assert!(error.to_string().starts_with("no request: "), "{line}: {error}");
        assert!(error.to_string().contains(reason), "{line}: {error}");
    }
    // The reason has not all of a wrong word of megabytes.
    let long = format!(r#"{{"request":"{}"}}"#, "x".repeat(1 << 20));
    assert!(Request::read(&long).unwrap_err().to_string().len() < 1_100);
}

#[test]
fn responses_of_the_card() {
    says(
        Response::Applications {
            applications: vec![ApplicationStatus {
                name: text("keeper"),
                ports: vec![0],
                queues: vec![],
                share: 1,
                rings: vec![RingShape { name: text("held"), count: 1, entries: 2, entry_bytes: 3 }],
                windows: vec![WindowShape { name: text("kept"), bytes: 64 }],
            }],
        },
        concat!(
            r#"{"response":"applications","applications":[{"name":"keeper","#,
            r#""ports":[0],"queues":[],"share":1,"#,
            r#""rings":[{"name":"held","count":1,"entries":2,"entry_bytes":3}],"#,
            r#""windows":[{"name":"kept","bytes":64}]}]}"#
        ),
    );
    says(
        Response::CaptureBegun { port: 0, waits_for: Some(1) },
        r#"{"response":"capture_begun","port":0,"waits_for":1}"#,
    );
    says(
        Response::Capture { port: 0, capture: None },
        r#"{"response":"capture","port":0,"capture":null}"#,
    );
    let capture = Some(CaptureState { frames: 7, missed: 0, goes_on: true });
    says(
        Response::Capture { port: 0, capture },
        r#"{"response":"capture","port":0,"capture":{"frames":7,"missed":0,"goes_on":true}}"#,
    );
    says(Response::error("no port 7"), r#"{"response":"error","reason":"no port 7"}"#);
    says(
        Response::Rss { port: 0, parameters: text("rss level 1"), indirection: vec![0, 1] },
        r#"{"response":"rss","port":0,"parameters":"rss level 1","indirection":[0,1]}"#,
    );
    says(
        Response::RssChanged { port: 0, moved_entries: 2, settled_ns: Some(9), waits_for: None },
        r#"{"response":"rss_changed","port":0,"moved_entries":2,"settled_ns":9,"waits_for":null}"#,
    );
    says(Response::Stopping {}, r#"{"response":"stopping"}"#);
}

#[test]
fn counters() {
    let ended = Some(text("gone"));
    let external = ExternalQueueCounters { queue: 1, ended, ..ExternalQueueCounters::default() };
    let counters = CardCounters {
        ports: vec![PortCounters {
            name: text("tap:nic0"),
            is_up: true,
            rx_frames: 5,
            queues: vec![QueueCounters { rx_frames: 5, ..QueueCounters::default() }],
            external_queues: vec![external],
            ..PortCounters::default()
        }],
        cores: vec![CoreCounters { core: 3, rx_frames: 9, frames: 5, cpu_ns: 1, busy_ns: 2 }],
        applications: vec![ApplicationCounters {
            name: text("keeper"),
            frames: 1,
            ..ApplicationCounters::default()
        }],
        rule_texts_refused: 9,
    };
    says(
        Response::Counters(counters),
        concat!(
            r#"{"response":"counters","ports":[{"name":"tap:nic0","is_up":true,"rx_frames":5,"#,
            r#""rx_bytes":0,"rx_missed":0,"rx_partial_checksums":0,"tx_frames":0,"tx_bytes":0,"#,
            r#""tx_dropped":0,"rule_drops":0,"program_drops":0,"program_reported":0,"#,
            r#""program_faults":0,"program_ring_full":0,"held_drops":0,"#,
            r#""rules":0,"rules_created":0,"rules_updated":0,"rules_destroyed":0,"#,
            r#""queues":[{"core":0,"rx_frames":5,"rx_bytes":0,"rx_missed":0}],"#,
            r#""external_queues":[{"queue":1,"is_there":false,"given_frames":0,"dropped":0,"#,
            r#""taken_frames":0,"refused":0,"ended":"gone"}]}],"#,
            r#""cores":[{"core":3,"rx_frames":9,"frames":5,"cpu_ns":1,"busy_ns":2}],"#,
            r#""applications":[{"name":"keeper","frames":1,"missed":0,"drops":0,"reported":0,"#,
            r#""faults":0,"outside":0,"ring_full":0,"queue_missed":0,"tx_dropped":0,"#,
            r#""busy_ns":0}],"rule_texts_refused":9}"#
        ),
    );
}

#[test]
fn responses_on_rules() {
    let flow = |done: FlowDone, json: &str| {
        let json = format!(r#"{{"response":"flow","done":[{json}],"is_idle":false}}"#);
        says(Response::Flow { done: vec![done], is_idle: false }, &json);
    };
    flow(
        FlowDone::Age { port: 0, rule: 1, idle_ns: 2, timeout_s: 3 },
        r#"{"did":"age","port":0,"rule":1,"idle_ns":2,"timeout_s":3}"#,
    );
    flow(
        FlowDone::Aged { port: 0, rules: vec![1, 2], destroyed: false },
        r#"{"did":"aged","port":0,"rules":[1,2],"destroyed":false}"#,
    );
    flow(
        FlowDone::Counted { port: 0, rule: 1, packets: 2, bytes: 128 },
        r#"{"did":"counted","port":0,"rule":1,"packets":2,"bytes":128}"#,
    );
    flow(FlowDone::Created { port: 0, rule: 1 }, r#"{"did":"created","port":0,"rule":1}"#);
    flow(FlowDone::Destroyed { port: 0, rule: 1 }, r#"{"did":"destroyed","port":0,"rule":1}"#);
    flow(
        FlowDone::Flushed { port: 0, rules_count: 4 },
        r#"{"did":"flushed","port":0,"rules_count":4}"#,
    );
    flow(FlowDone::Isolated { port: 0, on: true }, r#"{"did":"isolated","port":0,"on":true}"#);
    let rule = ListedRule { rule: 1, group: 0, priority: 0, shape: text("ETH => DROP") };
    flow(
        FlowDone::Listed { port: 0, rules: vec![rule] },
        concat!(
            r#"{"did":"listed","port":0,"#,
            r#""rules":[{"rule":1,"group":0,"priority":0,"shape":"ETH => DROP"}]}"#
        ),
    );
    flow(FlowDone::Set { port: 0 }, r#"{"did":"set","port":0}"#);
    flow(FlowDone::Updated { port: 0, rule: 1 }, r#"{"did":"updated","port":0,"rule":1}"#);
    flow(FlowDone::Validated { port: 0 }, r#"{"did":"validated","port":0}"#);
}

#[test]
fn responses_on_programs() {
    says(
        Response::Counter { packets: 1, bytes: 60 },
        r#"{"response":"counter","packets":1,"bytes":60}"#,
    );
    let field = DigestField { name: text("type"), value: text("0x0800") };
    says(
        Response::Digests { records: vec![vec![field]], untold: 0 },
        r#"{"response":"digests","records":[[{"name":"type","value":"0x0800"}]],"untold":0}"#,
    );
    says(
        Response::ProgramChanged { is_in_effect: true },
        r#"{"response":"program_changed","is_in_effect":true}"#,
    );
    says(Response::Program { tables: None }, r#"{"response":"program","tables":null}"#);
    says(Response::Register { value: 42 }, r#"{"response":"register","value":42}"#);
    says(
        Response::Ring { entries: vec![text("02ff")], has_more: false },
        r#"{"response":"ring","entries":["02ff"],"has_more":false}"#,
    );
    says(
        Response::Window { offset: 6, bytes: text("0800") },
        r#"{"response":"window","offset":6,"bytes":"0800"}"#,
    );
    says(
        Response::Numbers { offset: 6, width: Width::U16, numbers: vec![2, 512] },
        r#"{"response":"numbers","offset":6,"width":"u16","numbers":[2,512]}"#,
    );
}

#[test]
fn responses_on_tables() {
    says(Response::Done { commands: 2 }, r#"{"response":"done","commands":2}"#);
    says(
        Response::Replaced { tables: 1, added: 2, changed: 3, deleted: 4, kept: 5 },
        r#"{"response":"replaced","tables":1,"added":2,"changed":3,"deleted":4,"kept":5}"#,
    );
    says(Response::TablesFile { text: text("{}") }, r#"{"response":"tables_file","text":"{}"}"#);
    let default = Some(DefaultAction { action: text("drop()"), is_constant: true });
    let entries = TableEntries::Match { entries: 1, size: 4 };
    let table = TableState { name: text("routes"), entries, default };
    says(
        Response::Table { table, entries: vec![text("add routes dst:10.0.0.0/8 drop()")] },
        concat!(
            r#"{"response":"table","table":{"name":"routes","kind":"match","entries":1,"size":4,"#,
            r#""default":{"action":"drop()","is_constant":true}},"#,
            r#""entries":["add routes dst:10.0.0.0/8 drop()"]}"#
        ),
    );
    let of = |name: &str, entries| TableState { name: text(name), entries, default: None };
    says(
        Response::Tables {
            tables: vec![
                of("a", TableEntries::Learner { entries: 1, size: 2 }),
                of("b", TableEntries::NoKey {}),
                of("c", TableEntries::Selector { groups: 1, groups_max: 4, members_max: 8 }),
            ],
        },
        concat!(
            r#"{"response":"tables","tables":[{"name":"a","kind":"learner","entries":1,"size":2},"#,
            r#"{"name":"b","kind":"no_key"},"#,
            r#"{"name":"c","kind":"selector","groups":1,"groups_max":4,"members_max":8}]}"#
        ),
    );
}
