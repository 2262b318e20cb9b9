//! Quantities as people read them: three significant digits and a unit.

/// Formats an integer with separators, as 612,345.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats events per second: as an integer from 100 on.
pub fn rate(per_second: f64) -> String {
    match rounded(per_second) {
        value if value >= 100.0 => format!("{}/s", grouped(per_second.round() as u64)),
        value => format!("{}/s", three_digits(value)),
    }
}

/// Formats a measured time.
pub fn time(nanoseconds: u64) -> String {
    if nanoseconds == 0 {
        return "0 s".to_owned();
    }
    let smaller = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    scaled(nanoseconds as f64, &smaller).unwrap_or_else(|| format!("{nanoseconds} ns"))
}

/// Formats a configured time, without further zeros.
pub fn span(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000_000 => format!("{} ms", nanoseconds as f64 / 1e6),
        _ => format!("{} s", nanoseconds as f64 / 1e9),
    }
}

/// Formats a number of bytes; a kilobyte is 1000 bytes.
pub fn bytes(number: f64) -> String {
    scaled(number, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")]).unwrap_or_else(|| {
        let digits = if number.fract() == 0.0 { format!("{number}") } else { three_digits(rounded(number)) };
        format!("{digits} B")
    })
}

/// Formats the rate of a stream, from bytes per second.
pub fn bits_per_second(bytes: f64) -> String {
    let bits = bytes * 8.0;
    let scaled = scaled(bits, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")]);
    scaled.unwrap_or_else(|| format!("{} bit/s", three_digits(rounded(bits))))
}

/// Formats a share in percent, with a decimal only below ten.
pub fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if value >= 9.95 || value == 0.0 { format!("{value:.0} %") } else { format!("{value:.1} %") }
}

/// Uses the largest unit that is no larger than the value; `None` if there is none.
fn scaled(value: f64, units: &[(f64, &str)]) -> Option<String> {
    let value = rounded(value);
    units.iter().find(|(unit, _)| value >= *unit).map(|(unit, name)| format!("{} {name}", three_digits(value / unit)))
}

/// Rounds to three significant digits, so that 999.9 is no number of three digits and a decimal.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        _ if value >= 100.0 || value == 0.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    if value >= 1000.0 { grouped(value as u64) } else { format!("{value:.decimals$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_the_nearest_unit() {
        let times = [0, 7, 999, 1000, 51_249, 510_400, 999_900, 1_234_000, 8_100_000_000, 3_600_000_000_000].map(time);
        let right =
            ["0 s", "7 ns", "999 ns", "1.00 µs", "51.2 µs", "510 µs", "1.00 ms", "1.23 ms", "8.10 s", "3,600 s"];
        assert_eq!(times, right);
        assert_eq!([5e9, 5e8, 1.5e9, 2.5e6].map(|span_ns| span(span_ns as u64)), ["5 s", "500 ms", "1.5 s", "2.5 ms"]);
        let sizes = [0.0, 640.0, 12.34, 1000.0, 2.447e9, 999.6e6].map(bytes);
        assert_eq!(sizes, ["0 B", "640 B", "12.3 B", "1.00 kB", "2.45 GB", "1.00 GB"]);
        assert_eq!([1.25e9, 749e3, 1.0].map(bits_per_second), ["10.0 Gbit/s", "5.99 Mbit/s", "8.00 bit/s"]);
        assert_eq!([0.0, 0.5, 99.96, 122_469.4].map(rate), ["0/s", "0.50/s", "100/s", "122,469/s"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.004, 0.0996, 0.98].map(percent), ["0 %", "0.4 %", "10 %", "98 %"]);
    }
}
