//! The part of JSON Schema (draft 2020-12) that the engine's schema uses. An unknown keyword is a failure, so that nothing
//! goes unchecked.

use serde_json::Value;

/// Checks a value against a schema. The error names the place that does not fit.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    fits(schema, schema, value, "")
}

fn fits(root: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{}: {value} is not {what}", if place.is_empty() { "/" } else { place }));
    let Some(keywords) = schema.as_object() else {
        return if schema == &Value::Bool(true) { Ok(()) } else { wrong("allowed") };
    };
    for (keyword, argument) in keywords {
        match keyword.as_str() {
            "$ref" => fits(root, resolve(root, argument), value, place)?,
            "type" if !is_of_type(argument, value) => return wrong(&argument.to_string()),
            "const" if value != argument => return wrong(&argument.to_string()),
            "enum" if !argument.as_array().is_some_and(|allowed| allowed.contains(value)) => {
                return wrong(&argument.to_string());
            }
            "minimum" if value.is_number() && value.as_f64() < argument.as_f64() => {
                return wrong(&format!("at least {argument}"));
            }
            "maximum" if value.is_number() && value.as_f64() > argument.as_f64() => {
                return wrong(&format!("at most {argument}"));
            }
            "required" => {
                for name in argument.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if value.get(name).is_none() {
                        return Err(format!("{place}/{name} is missing"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in argument.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        fits(root, schema, member, &format!("{place}/{name}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let declared = schema.get("properties").and_then(Value::as_object);
                for (name, member) in value.as_object().into_iter().flatten() {
                    if declared.is_none_or(|declared| !declared.contains_key(name)) {
                        fits(root, argument, member, &format!("{place}/{name}"))?;
                    }
                }
            }
            "minItems"
                if value.as_array().is_some_and(|items| (items.len() as u64) < argument.as_u64().unwrap_or(0)) =>
            {
                return wrong(&format!("of at least {argument} items"));
            }
            "maxItems" if value.as_array().is_some_and(|items| Some(items.len() as u64) > argument.as_u64()) => {
                return wrong(&format!("of at most {argument} items"));
            }
            "prefixItems" => {
                let schemas = argument.as_array().into_iter().flatten();
                for (index, (schema, item)) in schemas.zip(value.as_array().into_iter().flatten()).enumerate() {
                    fits(root, schema, item, &format!("{place}/{index}"))?;
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(root, argument, item, &format!("{place}/{index}"))?;
                }
            }
            "anyOf" | "oneOf" => {
                let results: Vec<_> = argument
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|alternative| fits(root, alternative, value, place))
                    .collect();
                let count = results.iter().filter(|result| result.is_ok()).count();
                if count == 0 || (keyword == "oneOf" && count > 1) {
                    return Err(format!("{place}: {count} alternatives fit, of {results:?}"));
                }
            }
            "type" | "const" | "enum" | "minimum" | "maximum" | "minItems" | "maxItems" => {}
            "description" | "title" | "format" | "$schema" | "$defs" | "default" => {}
            unknown => panic!("the schema uses {unknown}, which these tests cannot check"),
        }
    }
    Ok(())
}

fn resolve<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).expect("references are local");
    root.pointer(pointer).unwrap_or_else(|| panic!("the schema has no {reference}"))
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let one = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("the schema has a type {name}, which these tests do not know"),
    };
    types.as_array().map_or_else(|| one(types), |types| types.iter().any(one))
}
