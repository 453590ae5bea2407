//! Random programs, as text: every instruction, with operands that it takes.

use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Widths of fields, bits.
const WIDTHS: [u32; 10] = [8, 16, 24, 32, 40, 48, 64, 72, 128, 136];
/// A field so wide that frames have no room for some of its headers.
const WIDEST: u32 = 8 * 250;
const HEADERS: usize = 4;
const METADATA: usize = 12;
const ACTIONS: usize = 6;

/// What a program is made of: widths of fields, and who learns.
pub struct Shape {
    headers: Vec<Vec<u32>>,
    metadata: Vec<u32>,
    /// Of each action.
    arguments: Vec<Vec<u32>>,
    has_learner: bool,
    size: usize,
}

pub struct Writer<'r> {
    rng: &'r mut Xoshiro256PlusPlus,
    shape: Shape,
    text: String,
    /// Labels of the block that is written.
    labels: usize,
}

/// The number of the header whose last field has a variable length.
const VARIABLE: usize = 3;

/// A program whose tables have so many entries.
pub fn program(rng: &mut Xoshiro256PlusPlus, size: usize) -> String {
    let mut widths = |count: usize| -> Vec<u32> {
        (0..count).map(|_| WIDTHS[rng.random_range(0..WIDTHS.len())]).collect()
    };
    let mut headers: Vec<Vec<u32>> = (0..HEADERS).map(|_| widths(4)).collect();
    // A checksum, and something to hash and to sum up.
    headers.iter_mut().for_each(|header| header[1] = 16);
    headers[2][3] = WIDEST;
    // Halves of each other, for `movh`.
    headers[0][2] = 128;
    let mut metadata = widths(METADATA);
    metadata[..5].copy_from_slice(&[32, 16, 32, 8, 24]);
    metadata[METADATA - 1] = 128;
    let mut arguments: Vec<Vec<u32>> = (0..ACTIONS).map(|action| widths(action % 3)).collect();
    // What an action learns stands in metadata as its arguments do.
    arguments[5] = metadata[5..7].to_vec();
    // As long as a header, for `dma`.
    arguments[4] = headers[0].clone();
    let has_learner = rng.random_bool(0.5);
    let shape = Shape { headers, metadata, arguments, has_learner, size };
    let mut writer = Writer { rng, shape, text: String::new(), labels: 0 };
    writer.declare();
    writer.actions();
    writer.tables();
    writer.apply();
    writer.text
}

impl Writer<'_> {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn declare(&mut self) {
        for header in 0..HEADERS {
            self.line(format!("struct header{header}_t {{"));
            for (field, bits) in self.shape.headers[header].clone().into_iter().enumerate() {
                self.line(format!("\tbit<{bits}> f{field}"));
            }
            if header == VARIABLE {
                self.line("\tvarbit<64> rest");
            }
            self.line("}");
            self.line(format!("header h{header} instanceof header{header}_t"));
        }
        self.line("struct metadata_t {");
        for (field, bits) in self.shape.metadata.clone().into_iter().enumerate() {
            self.line(format!("\tbit<{bits}> f{field}"));
        }
        self.line("}\nmetadata instanceof metadata_t");
        for (action, arguments) in self.shape.arguments.clone().into_iter().enumerate() {
            if !arguments.is_empty() {
                self.line(format!("struct a{action}_t {{"));
                for (field, bits) in arguments.into_iter().enumerate() {
                    self.line(format!("\tbit<{bits}> f{field}"));
                }
                self.line("}");
            }
        }
        self.line("regarray r0 size 4 initval 7\nregarray r1 size 5 initval 0");
        self.line("metarray m0 size 2\nrss rss0\ncountarray c0 size 3");
        self.line("window w0 size 61\nwindow w1 size 16384");
        self.line("ring q0 count 2 size 4 entry 43\nring q1 count 1 size 64 entry 1024");
        self.line("struct digest_t {");
        let told: [u32; 3] = std::array::from_fn(|field| self.shape.metadata[5 + field]);
        for (field, bits) in told.into_iter().enumerate() {
            self.line(format!("\tbit<{bits}> f{field}"));
        }
        self.line("}\ndigest d0 size 8 instanceof digest_t");
    }

    fn one(&mut self, count: usize) -> usize {
        self.rng.random_range(0..count)
    }

    /// A field, as `small` says; with the action whose arguments may be named.
    fn field(&mut self, may: &str, small: bool, action: Option<usize>) -> Option<String> {
        for _ in 0..20 {
            let owner = may.as_bytes()[self.one(may.len())] as char;
            let (name, widths) = match owner {
                'h' => {
                    let header = self.one(HEADERS);
                    (format!("h.h{header}"), self.shape.headers[header].clone())
                }
                'm' => ("m".to_owned(), self.shape.metadata.clone()),
                _ => match action {
                    Some(action) => ("t".to_owned(), self.shape.arguments[action].clone()),
                    None => continue,
                },
            };
            if widths.is_empty() {
                continue;
            }
            let field = self.one(widths.len());
            if !small || widths[field] <= 64 {
                return Some(format!("{name}.f{field}"));
            }
        }
        None
    }

    fn number(&mut self) -> String {
        match self.one(4) {
            0 => format!("{:#x}", self.rng.next_u64()),
            1 => format!("{}", self.one(3)),
            2 => format!("{:#x}", self.one(1 << 16)),
            _ => format!("{}", self.one(70)),
        }
    }

    fn operand(&mut self, may: &str, action: Option<usize>) -> String {
        let number = self.number();
        match self.one(3) {
            0 => number,
            _ => self.field(may, true, action).unwrap_or(number),
        }
    }

    /// An instruction that neither jumps nor ends.
    fn plain(&mut self, action: Option<usize>) -> Option<String> {
        let to = self.field("hm", true, action)?;
        let metadata = self.field("m", true, action)?;
        let header = self.one(HEADERS);
        if self.one(8) == 0 {
            return self.own(action);
        }
        Some(match self.one(28) {
            0..=3 => format!("mov {to} {}", self.operand("hmt", action)),
            4 => format!(
                "mov {} {}",
                self.field("hm", false, action)?,
                self.field("hmt", false, action)?
            ),
            5..=8 => {
                let alu = ["add", "sub", "and", "or", "xor", "shl", "shr"][self.one(7)];
                format!("{alu} {to} {}", self.operand("hmt", action))
            }
            9 => format!("ckadd h.h{header}.f1 {}", self.field("h", true, action)?),
            10 => format!("ckadd h.h{header}.f1 h.h{}", self.one(HEADERS)),
            11 => format!("cksub h.h{header}.f1 {}", self.field("h", true, action)?),
            12 => format!("regrd {to} r{} {}", self.one(2), self.operand("hmt", action)),
            13 => {
                let (index, value) = (self.operand("hmt", action), self.operand("hmt", action));
                format!("regwr r{} {index} {value}", self.one(2))
            }
            14 => {
                let (index, value) = (self.operand("hmt", action), self.operand("hmt", action));
                format!("regadd r{} {index} {value}", self.one(2))
            }
            15 => {
                let [index, length] = ["hmt", "hmt"].map(|may| self.operand(may, action));
                format!("meter m0 {index} {length} {} {metadata}", self.operand("mt", action))
            }
            16 => {
                let hash = ["crc16", "crc32", "crc32_ieee", "identity", "jhash"][self.one(5)];
                format!("hash {hash} {metadata} {}", self.range(action))
            }
            17 => format!("rss rss0 {metadata} {}", self.range(action)),
            18 => format!("validate h.h{header}"),
            19 => format!("invalidate h.h{header}"),
            20 => match header {
                VARIABLE => return None,
                header => format!("lookahead h.h{header}"),
            },
            21 => {
                let session = self.field("mt", true, action)?;
                format!("mirror {metadata} {session}")
            }
            22 => match self.one(8) {
                0 => "recirculate".to_owned(),
                _ => format!("recircid {metadata}"),
            },
            25 => self.halves(action)?,
            26 => format!("mov {} {}", self.wide()?, self.number()),
            23 if !self.shape.has_learner => format!("entryid {metadata}"),
            23 => self.extract(header),
            _ => self.extract(header),
        })
    }

    /// An instruction that SWX has not.
    fn own(&mut self, action: Option<usize>) -> Option<String> {
        let metadata = self.field("m", true, action)?;
        let offset = match self.one(3) {
            0 => self.operand("hmt", action),
            _ => {
                self.line("\tand m.f3 31");
                "m.f3".to_owned()
            }
        };
        // A number that is outside is refused where it is read.
        let is_number = offset.starts_with(|c: char| c.is_ascii_digit());
        let (offset, index) = match is_number {
            true => ("7".to_owned(), "1".to_owned()),
            false => (offset.clone(), offset),
        };
        Some(match self.one(9) {
            0 => format!("length {metadata}"),
            1 => format!("count c0 {}", self.operand("hmt", action)),
            2 => {
                let (index, value) = (self.operand("hmt", action), self.operand("hmt", action));
                format!("regadd {metadata} r{} {index} {value}", self.one(2))
            }
            3 => "digest d0 m.f5".to_owned(),
            4 => {
                let index = if self.one(2) == 0 { "0".to_owned() } else { index };
                format!("dma_write q0 {index}{}", self.list("hmt", 40, action))
            }
            5 => format!("dma_write q1 0{}", self.list("hmt", 900, action)),
            7 => format!("multicast {}", self.operand("mt", action)),
            6 => {
                let (window, most) = [(0, 40), (1, 900)][self.one(2)];
                format!("dma_write_at w{window} {offset}{}", self.list("hmt", most, action))
            }
            _ => {
                let (window, most) = [(0, 40), (1, 900)][self.one(2)];
                format!("dma_read_at w{window} {offset}{}", self.list("hm", most, action))
            }
        })
    }

    /// What is written, or of `hm` where to it is read; of so many bytes at most, as told.
    fn list(&mut self, may: &str, most: usize, action: Option<usize>) -> String {
        let (mut list, mut bytes) = (String::new(), 0);
        for _ in 0..1 + self.one(6) {
            let header = self.one(HEADERS);
            let (word, len) = match self.one(4) {
                0 if header != VARIABLE || may.contains('t') => {
                    let bits: u32 = self.shape.headers[header].iter().sum();
                    (format!("h.h{header}"), bits as usize / 8 + 8)
                }
                1 if may.contains('t') => {
                    let len = match self.one(2) {
                        0 => format!("{}", self.one(20)),
                        _ => self.field("mt", true, action).unwrap_or("3".to_owned()),
                    };
                    (format!("payload {len}"), 20)
                }
                _ => match self.field(may, false, action) {
                    Some(field) if field.starts_with('t') => (field, 17),
                    Some(field) => {
                        let bits = self.bits(&field);
                        (field, bits as usize / 8)
                    }
                    None => continue,
                },
            };
            if bytes + len <= most {
                list.push(' ');
                list.push_str(&word);
                bytes += len;
            }
        }
        if list.is_empty() { " m.f3".to_owned() } else { list }
    }

    /// Some field of more than 64 bits.
    fn wide(&mut self) -> Option<String> {
        self.fields(false).into_iter().find(|name| self.bits(name) > 64)
    }

    /// Some fields of headers and metadata.
    fn fields(&mut self, small: bool) -> Vec<String> {
        (0..40).filter_map(|_| self.field("hm", small, None)).collect()
    }

    /// Bits of a field of headers or metadata.
    fn bits(&self, name: &str) -> u32 {
        let (owner, field) = name.rsplit_once(".f").unwrap_or_default();
        let widths = match owner.strip_prefix("h.h") {
            Some(header) => &self.shape.headers[header.parse::<usize>().unwrap_or(0)],
            None => &self.shape.metadata,
        };
        widths[field.parse::<usize>().unwrap_or(0)]
    }

    /// The upper half of 128 bits, from or to 64.
    fn halves(&mut self, action: Option<usize>) -> Option<String> {
        let wide = ["h.h0.f2", "m.f11"][self.one(2)];
        let small = self.fields(true);
        let small = small.into_iter().find(|name| self.bits(name) == 64);
        // Arguments can be moved from.
        let of_argument = action
            .and_then(|action| self.shape.arguments[action].iter().position(|bits| *bits == 64));
        match (self.one(3), small, of_argument) {
            (0, _, Some(field)) => Some(format!("movh {wide} t.f{field}")),
            (1, Some(small), _) => Some(format!("movh {wide} {small}")),
            (_, Some(small), _) => Some(format!("movh {small} {wide}")),
            _ => None,
        }
    }

    fn extract(&mut self, header: usize) -> String {
        match header {
            VARIABLE => {
                // Mostly a length that fits.
                self.line("\tand m.f3 7");
                "extract h.h3 m.f3".to_owned()
            }
            header => format!("extract h.h{header}"),
        }
    }

    fn range(&mut self, action: Option<usize>) -> String {
        let (name, count) = match self.one(3) {
            0 => (format!("h.h{}", self.one(HEADERS)), 4),
            1 => ("m".to_owned(), METADATA),
            _ => match action.map(|action| self.shape.arguments[action].len()) {
                Some(count @ 1..) => ("t".to_owned(), count),
                _ => ("m".to_owned(), METADATA),
            },
        };
        let first = self.one(count);
        let last = first + self.one(count - first);
        match name == format!("h.h{VARIABLE}") && self.one(2) == 0 {
            true => format!("{name}.f{first} {name}.rest"),
            false => format!("{name}.f{first} {name}.f{last}"),
        }
    }

    fn condition(&mut self, label: &str, action: Option<usize>) -> String {
        match self.one(8) {
            0 => format!("jmpv {label} h.h{}", self.one(HEADERS)),
            1 => format!("jmpnv {label} h.h{}", self.one(HEADERS)),
            2 => format!("jmp{} {label}", ["h", "nh"][self.one(2)]),
            3 => format!("jmp{} {label} act{}", ["a", "na"][self.one(2)], self.one(ACTIONS)),
            4 => format!("jmp {label}"),
            _ => {
                let order = ["jmpeq", "jmpneq", "jmplt", "jmpgt"][self.one(4)];
                let (a, b) = (self.operand("hmt", action), self.operand("hmt", action));
                format!("{order} {label} {a} {b}")
            }
        }
    }

    /// Instructions with jumps; what a path may do before it is over is `more`'s.
    fn body(
        &mut self,
        len: usize,
        action: Option<usize>,
        more: impl Fn(&mut Self) -> Option<String>,
    ) {
        // Labels that were named, and where they are to stand.
        let mut open: Vec<(usize, String)> = Vec::new();
        for at in 0..len {
            let due: Vec<String> =
                open.extract_if(.., |(to, _)| *to == at).map(|(_, label)| label).collect();
            // One label an instruction: the others stand at ones that change nothing.
            for label in due {
                self.line(format!("{label} :\tadd m.f2 1"));
            }
            if self.one(5) == 0 {
                let (to, label) = (at + 1 + self.one(len - at), format!("L{}", self.labels));
                self.labels += 1;
                let jump = self.condition(&label, action);
                self.line(format!("\t{jump}"));
                open.push((to, label));
            }
            let instruction = match self.one(4) {
                0 => more(self),
                _ => self.plain(action),
            };
            if let Some(instruction) = instruction {
                self.line(format!("\t{instruction}"));
            }
        }
        for (_, label) in open {
            self.line(format!("{label} :\txor m.f2 1"));
        }
    }

    fn actions(&mut self) {
        for action in 0..ACTIONS {
            let arguments = match self.shape.arguments[action].is_empty() {
                true => "none".to_owned(),
                false => format!("instanceof a{action}_t"),
            };
            self.line(format!("action act{action} args {arguments} {{"));
            self.labels = 0;
            let len = self.one(6);
            self.body(len, Some(action), |writer| match (action, writer.one(4)) {
                (3, 0) => Some("drop".to_owned()),
                (3, 1) => Some(format!("tx {}", ["m.f0", "3", "0x1ffffffff"][writer.one(3)])),
                (3, 2) => Some(format!("steer {}", ["m.f1", "2"][writer.one(2)])),
                (0, 0) => Some(format!("emit h.h{}", writer.one(HEADERS))),
                (3, 3) => Some("reply".to_owned()),
                (4, 0) => Some("dma h.h0 t.f0".to_owned()),
                (2, 0..=2) if writer.shape.has_learner => Some("learn act5 m.f5 m.f3".to_owned()),
                (5, 0) if writer.shape.has_learner => Some("rearm".to_owned()),
                (5, 1) if writer.shape.has_learner => Some("rearm m.f3".to_owned()),
                (5, 2) if writer.shape.has_learner => Some("forget".to_owned()),
                _ => None,
            });
            self.line("\treturn\n}");
        }
    }

    fn key(&mut self, how: &[&str]) {
        self.line("\tkey {");
        let mut names: Vec<String> = Vec::new();
        for how in how {
            let name = self.fields(false).into_iter().find(|name| self.bits(name) < WIDEST);
            let name = name.unwrap_or("m.f0".to_owned());
            if !names.contains(&name) {
                self.line(format!("\t\t{name} {how}"));
                names.push(name);
            }
        }
        self.line("\t}");
    }

    fn tables(&mut self) {
        // Actions 2 and 5 are those of the learner.
        let plain: &[usize] =
            if self.shape.has_learner { &[0, 1, 3, 4] } else { &[0, 1, 2, 3, 4, 5] };
        let hows: [&[&str]; 5] = [
            &["exact", "exact"],
            &["lpm"],
            &["exact", "lpm"],
            &["wildcard", "exact", "wildcard"],
            &["wildcard"],
        ];
        for (table, how) in hows.iter().enumerate() {
            self.line(format!("table t{table} {{"));
            self.key(how);
            self.line("\tactions {");
            plain.iter().for_each(|action| self.line(format!("\t\tact{action}")));
            self.line("\t}\n\tdefault_action act0 args none");
            self.line(format!("\tsize {}\n}}", self.shape.size));
        }
        self.line("table t5 {\n\tactions {\n\t\tact3\n\t\tact0\n\t}");
        self.line("\tdefault_action act0 args none const\n}");
        if self.shape.has_learner {
            self.learner("l0", 5, &[1, 2, 5]);
            self.learner("l1", 3, &[2]);
        }
        self.line("selector s0 {\n\tgroup_id m.f3");
        self.line("\tselector {\n\t\th.h0.f0\n\t\tm.f2\n\t}");
        self.line("\tmember_id m.f4\n\tn_groups_max 4\n\tn_members_per_group_max 8\n}");
    }

    fn learner(&mut self, name: &str, size: usize, timeouts: &[u32]) {
        self.line(format!("learner {name} {{"));
        self.key(&["", ""]);
        self.line("\tactions {\n\t\tact5\n\t\tact2\n\t}");
        let arguments: Vec<String> = (0..self.shape.arguments[2].len())
            .map(|field| format!("f{field} {}", self.one(200)))
            .collect();
        self.line(format!("\tdefault_action act2 args {}", arguments.join(" ")));
        self.line(format!("\tsize {size}\n\ttimeout {{"));
        timeouts.iter().for_each(|seconds| self.line(format!("\t\t{seconds}")));
        self.line("\t}\n}");
    }

    fn apply(&mut self) {
        self.line("apply {\n\trx m.f0\n\textract h.h0");
        self.labels = 0;
        if self.one(3) == 0 {
            self.rounds();
        }
        let len = 4 + self.one(25);
        self.body(len, None, |writer| {
            Some(match writer.one(12) {
                0 => format!("emit h.h{}", writer.one(HEADERS)),
                1 if writer.one(4) == 0 => "drop".to_owned(),
                2 if writer.one(4) == 0 => format!("tx {}", ["m.f1", "2"][writer.one(2)]),
                2 if writer.one(3) == 0 => format!("steer {}", ["m.f2", "0"][writer.one(2)]),
                2 if writer.one(3) == 0 => "reply".to_owned(),
                3 if writer.shape.has_learner => format!("table l{}", writer.one(2)),
                4 => "table s0".to_owned(),
                other => format!("table t{}", other % 6),
            })
        });
        for header in 0..HEADERS {
            self.line(format!("\temit h.h{header}"));
        }
        self.line("\ttx m.f0\n}");
    }

    /// Has packets come round once or twice, and counts what the tables of the round before said.
    fn rounds(&mut self) {
        let (hit, ran) = (["h", "nh"][self.one(2)], ["a", "na"][self.one(2)]);
        let (action, rounds) = (self.one(ACTIONS), 1 + self.one(2));
        if !self.shape.has_learner {
            self.line("\tentryid m.f3\n\tregadd r1 m.f3 1");
        }
        self.line(format!("\tjmp{hit} HIT\n\tregadd r0 1 1\n\tHIT : jmp{ran} RAN act{action}"));
        self.line(format!("\tregadd r0 2 1\n\tRAN : recircid m.f3\n\tjmpgt ROUND m.f3 {rounds}"));
        self.line("\trecirculate\n\tROUND : add m.f2 1");
    }
}
