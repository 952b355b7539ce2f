//! Plain text in columns, for a terminal: no colour, no control characters.

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Lines of fields in aligned columns.
#[derive(Debug, Clone)]
pub struct Grid {
    columns: Vec<Align>,
    /// Columns that start a group. A wider gap precedes them.
    group_starts: Vec<usize>,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
enum Line {
    Fields(Vec<String>),
    /// Headings over several columns each: first column, number of columns, text.
    Spans(Vec<(usize, usize, String)>),
}

const GAP: usize = 2;
/// The gap after a number, which may contain a footnote mark.
const NUMBER_GAP: usize = 1;
const GROUP_GAP: usize = 3;

impl Grid {
    /// An empty grid.
    pub fn new(columns: Vec<Align>, group_starts: Vec<usize>) -> Grid {
        Grid {
            columns,
            group_starts,
            lines: Vec::new(),
        }
    }

    /// Adds a line; missing fields at its end are empty.
    pub fn line(&mut self, fields: Vec<String>) {
        self.lines.push(Line::Fields(fields));
    }

    /// Adds a line of headings, each centred over its columns. Each is given as first column, number of columns, and
    /// text.
    pub fn spans(&mut self, spans: Vec<(usize, usize, String)>) {
        self.lines.push(Line::Spans(spans));
    }

    /// The whole text, with a line end after every line and no trailing spaces.
    pub fn render(&self) -> String {
        let mut widths = vec![0; self.columns.len()];
        for line in &self.lines {
            if let Line::Fields(fields) = line {
                for (width, field) in widths.iter_mut().zip(fields) {
                    *width = (*width).max(columns_of(field));
                }
            }
        }
        let mut starts = Vec::new();
        let mut at = 0;
        for (column, width) in widths.iter().enumerate() {
            if column > 0 {
                let is_number = |column: usize| self.columns[column] == Align::Right;
                at += match self.group_starts.contains(&column) {
                    true => GROUP_GAP,
                    false if is_number(column) && is_number(column - 1) => NUMBER_GAP,
                    false => GAP,
                };
            }
            starts.push(at);
            at += width;
        }
        let mut text = String::new();
        for line in &self.lines {
            let mut written = 0;
            let mut put = |text: &mut String, at: usize, field: &str| {
                if !field.is_empty() {
                    text.extend(std::iter::repeat_n(' ', at.saturating_sub(written)));
                    text.push_str(field);
                    written = written.max(at) + columns_of(field);
                }
            };
            match line {
                Line::Fields(fields) => {
                    for (column, field) in fields.iter().enumerate() {
                        let slack = widths[column] - columns_of(field);
                        let shift = match self.columns[column] {
                            Align::Left => 0,
                            Align::Right => slack,
                        };
                        put(&mut text, starts[column] + shift, field);
                    }
                }
                Line::Spans(spans) => {
                    for (first, number, heading) in spans {
                        let last = first + number - 1;
                        let width = starts[last] + widths[last] - starts[*first];
                        let shift = width.saturating_sub(columns_of(heading)) / 2;
                        put(&mut text, starts[*first] + shift, heading);
                    }
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}

/// The width of a text in columns. Every character that the program prints has a width of one column.
pub fn columns_of(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text at spaces into lines of at most `width` columns. A longer word gets its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns_of(line) + 1 + columns_of(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A heading followed by a wrapped text. Further lines are indented to the end of the heading. If the heading has more
/// than 24 columns, further lines have the indentation of the heading plus four columns.
pub fn hanging(head: &str, text: &str, width: usize) -> String {
    const LONG: usize = 24;
    let own = head.chars().take_while(|c| *c == ' ').count();
    let indent = match columns_of(head) {
        long if long > LONG => own + 4,
        short => short,
    };
    let mut out = head.to_owned();
    let mut at = columns_of(head);
    let mut begins = true;
    for word in text.split_whitespace() {
        let size = columns_of(word);
        if !begins && at + 1 + size > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            at = indent;
            begins = true;
        }
        if !begins {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += size;
        begins = false;
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// The number of a footnote in superscript digits, as in `¹` or `¹²`.
pub fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number
        .to_string()
        .bytes()
        .map(|digit| DIGITS[usize::from(digit - b'0')])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_under_each_other() {
        let mut grid = Grid::new(vec![Align::Left, Align::Right, Align::Right], vec![1]);
        grid.spans(vec![(1, 2, "both".to_owned())]);
        grid.line(vec!["a".into(), "1.0".into(), "10".into()]);
        grid.line(vec!["bcd".into(), String::new(), "7".into()]);
        assert_eq!(grid.render(), "       both\na     1.0 10\nbcd        7\n");
    }

    #[test]
    fn texts_wrap_at_spaces_with_a_hanging_indent() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable a", 4), ["unbreakable", "a"]);
        assert_eq!(
            hanging("x: ", "aaaaaaaaaa bbbbbbbbbb cc", 23),
            "x: aaaaaaaaaa\n   bbbbbbbbbb cc\n"
        );
        assert_eq!(superscript(12), "¹²");
    }
}
