// SPDX-License-Identifier: Apache-2.0
// Reading JSON files that people write: every value is fetched by key and checked, unknown keys are
// errors (a wrong unit is a wrong key), and every message carries the place in the file.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "autopar/Base/Status.h"

namespace autopar {

/// Parses text; the message of a syntax error gives line and column.
Result<nlohmann::json> parseJson(std::string_view text);

/// One JSON object being read. The first error is kept and later reads return defaults, so a reader
/// is straight-line code with one check at the end: `return fields.finish();`.
class JsonFields {
public:
  /// `json` must outlive this; `place` is "" for the file's root, "nodes[1]" below it.
  JsonFields(const nlohmann::json &json, std::string place);

  bool has(const char *key) const;
  std::string text(const char *key);
  std::string text(const char *key, std::string absent);
  double number(const char *key, double least, double most);
  double number(const char *key, double least, double most, double absent);
  int64_t integer(const char *key, int64_t least, int64_t most);
  int64_t integer(const char *key, int64_t least, int64_t most, int64_t absent);
  bool truth(const char *key, bool absent);
  /// The value of a key; null (a static one) and an error where it is absent or of another type.
  const nlohmann::json &array(const char *key);
  const nlohmann::json &object(const char *key);
  /// A list of strings; absent gives the empty list.
  std::vector<std::string> texts(const char *key);
  /// Checks `"kind": kind` and `"version": version`, which a form written by hand may lack.
  void header(const std::string &kind, int64_t version, bool mayLackVersion = false);
  /// "place.key".
  std::string placeOf(std::string_view key) const;
  /// Records an error at place.key unless there is one already.
  void fail(std::string_view key, const std::string &what);
  /// The first error so far.
  const Status &status() const { return first; }

  /// The first error, or one about the first unknown key.
  Status finish() const;

private:
  const nlohmann::json *fetch(const char *key, bool demanded);

  const nlohmann::json &json;
  std::string place;
  std::set<std::string> known;
  Status first;
};

} // namespace autopar
