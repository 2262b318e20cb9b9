//! The table at the end of a load or a server: labelled rows, for terminals of 80 columns.

/// Columns of a line.
const WIDTH: usize = 80;

/// Columns of the label with the space behind it, for labels that fit.
const LABEL: usize = 13;

/// Columns of a percentile.
const PERCENTILE: usize = 9;

/// A row: a label, figures, and a note that may go on in further lines.
#[derive(Debug, Clone, Default)]
pub struct Row {
    label: String,
    figures: Vec<String>,
    note: String,
}

impl Row {
    /// Makes a row with figures. An empty label continues the row above.
    pub fn new(label: &str, figures: impl IntoIterator<Item = String>) -> Self {
        Row { label: label.to_owned(), figures: figures.into_iter().collect(), note: String::new() }
    }

    /// Makes a row whose note begins where figures do.
    pub fn of_words(label: &str, words: impl Into<String>) -> Self {
        Row::new(label, []).note(words)
    }

    /// Adds the note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// Formats rows with figures in columns, aligned to the left.
pub fn left(rows: &[Row]) -> String {
    let label = rows.iter().map(|row| length(&row.label) + 2).max().unwrap_or_default().max(LABEL);
    let columns = rows.iter().map(|row| row.figures.len()).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.figures.get(column)).map(|text| length(text)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default() + 2).collect();
    let line = |row: &Row| {
        let mut line = padded(&row.label, label);
        // Words begin behind the label, and notes behind the last column.
        if !row.figures.is_empty() {
            for (column, width) in widths.iter().enumerate() {
                line += &padded(row.figures.get(column).map_or("", String::as_str), *width);
            }
        }
        wrapped(&line, &row.note)
    };
    rows.iter().map(line).collect()
}

/// Formats rows of percentiles, with figures aligned to the right under the names of the columns. A long label has a line to
/// itself.
pub fn right(columns: &[&str], rows: &[Row]) -> String {
    let cell = |text: &str| " ".repeat(PERCENTILE.saturating_sub(length(text))) + text;
    let mut text = padded("", LABEL) + &columns.iter().map(|name| cell(name)).collect::<String>() + "\n";
    for row in rows {
        let figures: String = row.figures.iter().map(|figure| cell(figure)).collect();
        let label = if length(&row.label) < LABEL { row.label.as_str() } else { "" };
        if label != row.label {
            text += &format!("{}\n", row.label);
        }
        text += &wrapped(&(padded(label, LABEL) + &figures + "  "), &row.note);
    }
    text
}

/// Breaks words into lines that fit, the first behind `start`.
pub fn wrapped(start: &str, words: &str) -> String {
    let indent = length(start);
    let mut text = start.to_owned();
    let mut column = indent;
    for word in words.split_whitespace() {
        if column > indent && column + 1 + length(word) > WIDTH {
            text += &format!("\n{}", " ".repeat(indent));
            column = indent;
        }
        if column > indent {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length(word);
    }
    text.trim_end().to_owned() + "\n"
}

fn padded(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(length(text)))
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_notes_go_on_below() {
        let rows = [
            Row::new("Requests", ["612,345".to_owned(), "9/s".to_owned()]).note("of 10/s"),
            Row::new("Errors", ["0".to_owned()]),
            Row::of_words("CPU", "word ".repeat(20)),
        ];
        let text = left(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["Requests     612,345  9/s  of 10/s", "Errors       0"]);
        assert!(lines.iter().all(|line| line.len() <= WIDTH) && lines.len() == 4, "{text}");
        assert!(lines[3].starts_with(&(" ".repeat(LABEL) + "word")), "{text}");
    }

    #[test]
    fn percentiles_stand_under_their_names() {
        let text =
            right(&["p50", "max"], &[Row::new("Latency", ["51 µs".to_owned(), "-".to_owned()]).note("since due")]);
        let ends: Vec<usize> = text.lines().map(|line| line.chars().take(LABEL + PERCENTILE).count()).collect();
        assert_eq!(ends, [LABEL + PERCENTILE; 2]);
        let [heading, row] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(heading.split_whitespace().collect::<Vec<_>>(), ["p50", "max"]);
        assert!(row.starts_with("Latency ") && row.ends_with("-  since due"), "{text}");
    }
}
