//! Slurm's lists of nodes, as in `node[01-03,7],login` (scontrol(1), "show hostnames").

/// Maximum number of nodes in a list.
const MOST: usize = 1 << 16;

/// Why a list of nodes is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NodeListError {
    /// The list contains no node.
    #[error("the list is empty")]
    Empty,
    /// A bracket is not closed, or is closed twice.
    #[error("its brackets do not match")]
    Bracket,
    /// A range does not consist of two numbers, or its end is smaller than its start.
    #[error("a range in it is not NUMBER-NUMBER")]
    Range,
    /// The list expands to too many nodes.
    #[error("it has more than {MOST} nodes")]
    TooMany,
}

/// Returns all nodes of a list, in the order of the list. There is at least one node.
///
/// # Errors
/// If the list is malformed or empty.
pub fn expand(list: &str) -> Result<Vec<String>, NodeListError> {
    let mut nodes = Vec::new();
    for part in split(list)? {
        expand_part(part, &mut nodes)?;
    }
    match nodes.is_empty() {
        true => Err(NodeListError::Empty),
        false => Ok(nodes),
    }
}

/// Splits a list at the commas outside brackets.
fn split(list: &str) -> Result<Vec<&str>, NodeListError> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (place, character) in list.char_indices() {
        match character {
            '[' if !is_inside => is_inside = true,
            ']' if is_inside => is_inside = false,
            '[' | ']' => return Err(NodeListError::Bracket),
            ',' if !is_inside => {
                parts.push(&list[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    match is_inside {
        true => Err(NodeListError::Bracket),
        false => Ok(parts),
    }
}

/// Expands a name with any number of brackets. The number of the last bracket changes first.
fn expand_part(part: &str, nodes: &mut Vec<String>) -> Result<(), NodeListError> {
    let mut names = vec![String::new()];
    let mut rest = part.trim();
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']').ok_or(NodeListError::Bracket)?;
        let numbers = numbers(ranges)?;
        if names.len().saturating_mul(numbers.len()) > MOST {
            return Err(NodeListError::TooMany);
        }
        let with = |name: &String| {
            let name = format!("{name}{before}");
            numbers.iter().map(move |number| format!("{name}{number}"))
        };
        names = names.iter().flat_map(with).collect();
        rest = after;
    }
    for mut name in names {
        name.push_str(rest);
        if name.is_empty() {
            continue;
        }
        if nodes.len() == MOST {
            return Err(NodeListError::TooMany);
        }
        nodes.push(name);
    }
    Ok(())
}

/// Expands ranges such as `01-03,7` into numbers. Each is padded with zeros to the width of the start of its range.
fn numbers(ranges: &str) -> Result<Vec<String>, NodeListError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u64>().map_err(|_| NodeListError::Range),
            false => Err(NodeListError::Range),
        };
        let (first, last) = (number(from)?, number(to)?);
        if last < first {
            return Err(NodeListError::Range);
        }
        if (last - first) as usize >= MOST - numbers.len() {
            return Err(NodeListError::TooMany);
        }
        let width = from.len();
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_expand_in_order() {
        for (list, nodes) in [
            ("node1", &["node1"][..]),
            ("a,b", &["a", "b"]),
            ("node[01-03,7]", &["node01", "node02", "node03", "node7"]),
            ("n[9-11],login", &["n9", "n10", "n11", "login"]),
            ("r[1-2]n[1-2].x", &["r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"]),
            ("a,", &["a"]),
        ] {
            assert_eq!(expand(list).unwrap(), nodes, "{list}");
        }
    }

    #[test]
    fn malformed_and_huge_lists_are_errors() {
        for (list, error) in [
            ("", NodeListError::Empty),
            (",", NodeListError::Empty),
            ("a[1", NodeListError::Bracket),
            ("a]1[", NodeListError::Bracket),
            ("a[[1]]", NodeListError::Bracket),
            ("a[2-1]", NodeListError::Range),
            ("a[x]", NodeListError::Range),
            ("a[]", NodeListError::Range),
            ("a[+1]", NodeListError::Range),
            ("a[1-99999999999999999999]", NodeListError::Range),
            ("a[0-18446744073709551615]", NodeListError::TooMany),
            ("a[1-60000]b[1-60000]", NodeListError::TooMany),
        ] {
            assert_eq!(expand(list), Err(error), "{list}");
        }
    }
}
