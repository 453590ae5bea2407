//! Items in documents: the item's name, and its images in hexadecimal without the zeros at the end.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::item::{IMAGE_LEN, Image, Item, ItemMatch};

/// An item as a document has it.
#[derive(Serialize, Deserialize)]
struct ItemDocument {
    item: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    spec: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    mask: String,
}

impl Serialize for ItemMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = ItemDocument {
            item: self.item.name().to_owned(),
            spec: hex(&self.spec),
            last: self.last.as_ref().map(hex),
            mask: hex(&self.mask),
        };
        document.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ItemMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ItemMatch, D::Error> {
        let document = ItemDocument::deserialize(deserializer)?;
        let name = &document.item;
        let item = Item::from_name(name).ok_or_else(|| D::Error::custom(no_item(name)))?;
        let image = |text: &str| image(text).ok_or_else(|| D::Error::custom(no_image(text)));
        Ok(ItemMatch {
            item,
            spec: image(&document.spec)?,
            last: document.last.as_deref().map(image).transpose()?,
            mask: image(&document.mask)?,
        })
    }
}

fn no_item(name: &str) -> String {
    format!("no item `{name}`; the items are those of testpmd, such as `ipv4`")
}

fn no_image(text: &str) -> String {
    format!("`{text}` is no image; write up to {IMAGE_LEN} bytes in hexadecimal")
}

fn hex(image: &Image) -> String {
    let len = image.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    image[..len].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn image(text: &str) -> Option<Image> {
    let mut image = [0; IMAGE_LEN];
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || text.len() % 2 == 1 || text.len() > 2 * IMAGE_LEN {
        return None;
    }
    for (at, byte) in image.iter_mut().enumerate().take(text.len() / 2) {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let mut item = ItemMatch::any(Item::Ipv4);
        item.spec[12..16].copy_from_slice(&[10, 0, 0, 1]);
        item.mask[12..15].fill(0xff);
        let text = serde_json::to_string(&item).unwrap();
        let spec = "0000000000000000000000000a000001";
        let mask = "000000000000000000000000ffffff";
        assert_eq!(text, format!(r#"{{"item":"ipv4","spec":"{spec}","mask":"{mask}"}}"#));
        assert_eq!(serde_json::from_str::<ItemMatch>(&text).unwrap(), item);
        item.last = Some(item.spec);
        let text = serde_json::to_string(&item).unwrap();
        assert_eq!(serde_json::from_str::<ItemMatch>(&text).unwrap(), item);
    }

    #[test]
    fn unknown_items_and_bad_images_are_errors() {
        for (text, reason) in [
            (r#"{"item":"ipv5"}"#, "no item `ipv5`"),
            (r#"{"item":"eth","spec":"0"}"#, "`0` is no image"),
            (r#"{"item":"eth","mask":"zz"}"#, "`zz` is no image"),
        ] {
            let error = serde_json::from_str::<ItemMatch>(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let long = format!(r#"{{"item":"eth","spec":"{}"}}"#, "00".repeat(IMAGE_LEN + 1));
        assert!(serde_json::from_str::<ItemMatch>(&long).is_err());
    }
}
