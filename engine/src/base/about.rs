//! Descriptions of registered things.

/// Summary and source, shown by `list`.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// One sentence.
    pub summary: &'static str,
    /// Manual page, book or paper.
    pub source: &'static str,
}

/// A registered thing with its name, which is the name of its file.
pub struct Entry<T: 'static> {
    /// The command-line name.
    pub name: &'static str,
    /// The thing itself.
    pub item: &'static T,
}

/// Declares the modules of a folder and lists them: the one line that registers a new file.
///
/// Every module holds one `pub static ENTRY` of the given type. An entry that is only a value needs no file: `name = value`.
#[macro_export]
macro_rules! register {
    ($(#[$meta:meta])* $list:ident: $type:ty { $($name:ident $(= $value:expr)?,)+ }) => {
        $($crate::register!(@module $name: $type $(= $value)?);)+
        $(#[$meta])*
        pub static $list: &[$crate::base::about::Entry<$type>] =
            &[$($crate::base::about::Entry { name: stringify!($name), item: &$name::ENTRY },)+];
    };
    // The entry's own `About` documents it.
    (@module $name:ident: $type:ty) => {
        #[allow(missing_docs)]
        pub mod $name;
    };
    (@module $name:ident: $type:ty = $value:expr) => {
        #[allow(missing_docs)]
        pub mod $name {
            use super::*;

            pub static ENTRY: $type = $value;
        }
    };
}
