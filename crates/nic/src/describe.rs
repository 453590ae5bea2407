//! What the control side knows of a rule, for people: a line of a dump.

use std::fmt::Write;

use niclab_packet::key::field;

use crate::action_word::Fate;
use crate::control::{Nic, RuleId};
use crate::error::RuleError;
use crate::priority_list::priority_of;

/// Fields of the outer key, by name.
const FIELDS: [(&str, std::ops::Range<usize>); 17] = [
    ("eth_dst", field::ETH_DST),
    ("eth_src", field::ETH_SRC),
    ("vlan", field::VLAN_OUTER),
    ("vlan_inner", field::VLAN_INNER),
    ("vlans", field::VLANS),
    ("eth_type", field::ETHER_TYPE),
    ("depth", field::DEPTH),
    ("ip_src", field::SRC_HEAD),
    ("ip_src_rest", field::SRC_TAIL),
    ("ip_dst", field::DST_HEAD),
    ("ip_dst_rest", field::DST_TAIL),
    ("ip_proto", field::PROTOCOL),
    ("ip_tos", field::TOS),
    ("ip_ttl", field::TTL),
    ("ip_fragment", field::FRAGMENT),
    ("port_src", field::SPORT),
    ("port_dst", field::DPORT),
];

impl Nic {
    /// A rule as the NIC stores it: group, priority, the fields of the outer headers that it
    /// matches (in hexadecimal, with a mask unless all bits count), and its fate.
    ///
    /// # Errors
    /// [`RuleError::Unknown`].
    pub fn describe(&mut self, id: RuleId) -> Result<String, RuleError> {
        let record = self.record(id)?;
        let (group, fate) = (self.groups.number(record.mask_id.group), record.word.fate());
        let mut text = format!("group {group} priority {} match", priority_of(record.order));
        let mask = self.groups.mask(record.mask_id).mask;
        let key = mask.keys.get(record.key.place);
        let selector = &mask.tuple.shape.selector;
        let ((value, bits), is_deep) = (selector.expand(&key), selector.is_deep());
        let (value, bits) = (value.to_bytes(), bits.to_bytes());
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        for (name, place) in FIELDS {
            let (value, bits) = (&value[place.clone()], &bits[place]);
            // Writing to a string does not fail.
            let _ = match bits {
                bits if bits.iter().all(|byte| *byte == 0) => continue,
                bits if bits.iter().all(|byte| *byte == 0xff) => {
                    write!(text, " {name} {}", hex(value))
                }
                bits => write!(text, " {name} {}/{}", hex(value), hex(bits)),
            };
        }
        if is_deep {
            text.push_str(" and more");
        }
        text.push_str(" fate ");
        self.write_fate(&mut text, fate);
        Ok(text)
    }

    fn write_fate(&self, text: &mut String, fate: Fate) {
        let _ = match fate {
            Fate::Drop => write!(text, "drop"),
            Fate::Jump(place) => write!(text, "jump group {}", self.groups.number(place)),
            Fate::Port(port) => write!(text, "port {port}"),
            Fate::Queue(queue) => write!(text, "queue {queue}"),
            Fate::Rss(context) => write!(text, "rss {context}"),
            Fate::ActionList(number) => {
                self.write_fate(text, self.shared.action_lists.read(number).0);
                write!(text, " after other actions")
            }
        };
    }
}
