//! The page of a [`PartitionDocument`]: the share of each core, and where each group of rules is.

use askama::Template;
use niclab_result::partition::{PartitionDocument, PartitionGroup};

use crate::ReportError;

/// `sid`s of a group that the page lists.
const SIDS_MAX: usize = 10;
/// Groups that the page lists; the document has all.
const GROUPS_MAX: usize = 500;

#[derive(Template)]
#[template(path = "partition.html")]
struct PartitionPage<'a> {
    program: &'a str,
    lead: String,
    traffic: String,
    cores: Vec<CoreView<'a>>,
    groups: Vec<GroupView<'a>>,
    more_groups: usize,
    style: &'static str,
}

struct CoreView<'a> {
    core: usize,
    file: &'a str,
    rules: usize,
    placed_rules: usize,
    traffic: String,
    cost: String,
    /// Width of its bar, percent of the work of a single core.
    width: u32,
}

struct GroupView<'a> {
    group: &'a PartitionGroup,
    place: String,
    sids: String,
    reason: &'a str,
}

/// The page of `niclab ids partition` as one HTML file.
///
/// # Errors
/// [`ReportError::Template`].
pub fn partition_html(document: &PartitionDocument) -> Result<String, ReportError> {
    let cores = document.cores.iter().enumerate().map(|(at, core)| CoreView {
        core: at,
        file: &core.file,
        rules: core.rules,
        placed_rules: core.placed_rules,
        traffic: percent(core.traffic_ratio),
        cost: percent(core.cost_ratio),
        width: (core.cost_ratio.min(1.0) * 100.0).round() as u32,
    });
    let groups = document.groups.iter().take(GROUPS_MAX).map(|group| GroupView {
        group,
        place: group.core.map_or("several".to_owned(), |core| core.to_string()),
        sids: sids(group),
        reason: group.reason.as_deref().unwrap_or_default(),
    });
    let page = PartitionPage {
        program: &document.program,
        lead: document.lead(),
        traffic: document.about_traffic(),
        cores: cores.collect(),
        groups: groups.collect(),
        more_groups: document.groups.len().saturating_sub(GROUPS_MAX),
        style: include_str!("../templates/style.css"),
    };
    Ok(page.render()?)
}

fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}

fn sids(group: &PartitionGroup) -> String {
    let shown: Vec<String> = group.sids.iter().take(SIDS_MAX).map(u32::to_string).collect();
    let more = if group.sids.len() > shown.len() { ", …" } else { "" };
    shown.join(", ") + more
}

#[cfg(test)]
mod tests {
    use niclab_result::partition::{PARTITION_SCHEMA, PartitionCore, RuleSource};

    use super::*;

    #[test]
    fn the_page_has_every_core_and_group_and_escapes_names() {
        let core = |file: &str, cost_ratio| PartitionCore {
            file: file.to_owned(),
            rules: 3,
            placed_rules: 1,
            traffic_ratio: 0.25,
            cost_ratio,
        };
        let document = PartitionDocument {
            schema: PARTITION_SCHEMA,
            program: "niclab test".to_owned(),
            sources: vec![RuleSource { path: "<b>.rules".to_owned(), rules: 4 }],
            traffic: None,
            reporters: vec![0],
            cores: vec![core("core-0.rules", 0.5), core("core-1.rules", 0.25)],
            groups: vec![PartitionGroup {
                concerns: "TCP, port <25>".to_owned(),
                rules: 2,
                sids: vec![1; 11],
                core: Some(1),
                reason: None,
            }],
            card_lacks: None,
        };
        let html = partition_html(&document).unwrap();
        for text in ["core-0.rules", "core-1.rules", "TCP, port &#60;25&#62;", "1, 1, …", "25 %"]
        {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains("<b>"), "a name is no markup");
    }
}
