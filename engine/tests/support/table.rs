//! Reads the table that a load or a server prints for people.

/// A printed table.
pub struct Table<'a>(&'a str);

impl<'a> Table<'a> {
    /// The table in this output.
    pub fn of(output: &'a str) -> Self {
        Table(output)
    }

    /// Returns the cells behind the label of a row, which two spaces or more separate.
    #[track_caller]
    pub fn row(&self, label: &str) -> Vec<&'a str> {
        self.find(label).unwrap_or_else(|| panic!("no row {label}: {}", self.0))
    }

    /// As [`Table::row`]; `None` if there is no such row.
    pub fn find(&self, label: &str) -> Option<Vec<&'a str>> {
        let rest = |line: &'a str| line.strip_prefix(label).filter(|rest| rest.is_empty() || rest.starts_with("  "));
        self.0.lines().find_map(rest).map(cells)
    }

    /// Returns the cells of the row below that of a label.
    #[track_caller]
    pub fn below(&self, label: &str) -> Vec<&'a str> {
        let mut lines = self.0.lines().skip_while(|line| !line.starts_with(label));
        cells(lines.nth(1).unwrap_or_else(|| panic!("nothing below {label}: {}", self.0)))
    }

    /// Returns the percentiles of a row by their names, in nanoseconds; `None` for those that are not known.
    #[track_caller]
    pub fn percentiles(&self, label: &str) -> Vec<(&'a str, Option<f64>)> {
        let heading = self.0.lines().find(|line| line.trim_start().starts_with("p50 ")).expect(self.0);
        let row = self.row(label);
        heading.split_whitespace().zip(row).map(|(name, cell)| (name, (cell != "-").then(|| quantity(cell)))).collect()
    }

    /// Returns whether the verdict is that the result is valid.
    pub fn is_valid(&self) -> bool {
        self.0.lines().any(|line| line.starts_with("Valid"))
    }

    /// Returns the words behind this label, of a line outside the table.
    pub fn line(&self, label: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(": "))
    }
}

fn cells(row: &str) -> Vec<&str> {
    row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Returns the value of a figure in its base unit: requests, bytes, bits or nanoseconds, or one of these per second.
#[track_caller]
pub fn quantity(cell: &str) -> f64 {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let number = number.trim_end_matches("/s").replace(',', "");
    let number: f64 = number.parse().unwrap_or_else(|error| panic!("{cell}: {error}"));
    let factor = match unit.trim_end_matches("/s") {
        "" | "B" | "bit" | "ns" => 1.0,
        "kB" | "kbit" | "µs" => 1e3,
        "MB" | "Mbit" | "ms" => 1e6,
        "GB" | "Gbit" | "s" => 1e9,
        other => panic!("{cell}: {other} is no unit"),
    };
    number * factor
}
