//! The paper's rows of tables 10 and 11, and the layout of the table.

/// Returns the heading of the table.
pub(super) fn heading() -> String {
    let columns = ["packets", "bytes", "seconds", "% overhead", "200", "304"];
    line("", "", columns.map(str::to_owned))
}

/// Returns one row of the table.
pub(super) fn line(
    who: &str,
    visit: &str,
    [packets, bytes, seconds, overhead, whole, unchanged]: [String; 6],
) -> String {
    format!(
        "{who:36} {visit:22} {packets:>12} {bytes:>18} {seconds:>14} {overhead:>12} {whole:>4} {unchanged:>4}\n"
    )
}

/// Returns the published rows, from `figures.csv` of the paper.
pub(super) fn rows(figures: &str) -> String {
    let mut text = String::new();
    for (table, server) in [("T10", "Jigsaw"), ("T11", "Apache")] {
        for browser in ["Netscape Navigator", "Internet Explorer"] {
            for (group, visit) in [("first", "first retrieval"), ("reval", "cache validation")] {
                let figure = |metric: &str| {
                    figure(figures, table, browser, &format!("{group}.{metric}"))
                        .unwrap_or_else(|| "–".to_owned())
                };
                text.push_str(&line(
                    &format!("paper, {browser}, {server}"),
                    visit,
                    [
                        figure("packets"),
                        figure("bytes"),
                        figure("elapsed"),
                        figure("overhead"),
                        String::new(),
                        String::new(),
                    ],
                ));
            }
        }
    }
    text
}

/// Returns one published figure. The columns are table, environment, variant, metric, value, unit and note.
fn figure(figures: &str, table: &str, variant: &str, metric: &str) -> Option<String> {
    figures.lines().find_map(|row| {
        let mut cells = row.split(',');
        let is_it = cells.next() == Some(table)
            && cells.nth(1) == Some(variant)
            && cells.next() == Some(metric);
        is_it.then(|| cells.next().map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rows_are_found() {
        let figures = "table,environment,variant,metric,value,unit,note\n\
                       T10,Jigsaw PPP browsers,Netscape Navigator,reval.packets,108,packets,printed\n\
                       T11,Apache PPP browsers,Netscape Navigator,first.elapsed,58.7,s,printed\n";
        let rows = rows(figures);
        let lines: Vec<&str> = rows.lines().collect();
        assert_eq!(lines.len(), 8);
        assert!(lines[1].contains(" 108 "), "{rows}");
        assert!(lines[4].contains(" 58.7 "), "{rows}");
        assert!(lines[0].contains('–'), "{rows}");
    }
}
