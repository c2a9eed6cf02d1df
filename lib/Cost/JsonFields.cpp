// SPDX-License-Identifier: Apache-2.0
// Checked access to JSON objects.
#include "autopar/Cost/JsonFields.h"

#include <cmath>
#include <functional>
#include <set>
#include <sstream>

namespace autopar {
namespace {

const nlohmann::json &nullJson() {
  static const nlohmann::json value;
  return value;
}

std::string numberText(double value) {
  std::ostringstream out;
  out.precision(12);
  out << value;
  return out.str();
}

} // namespace

namespace {

/// Finds keys that an object has twice, of which a parser would keep the last.
class KeysOnce {
public:
  bool operator()(int, nlohmann::json::parse_event_t event, nlohmann::json &parsed) {
    if (event == nlohmann::json::parse_event_t::object_start)
      objects.emplace_back();
    else if (event == nlohmann::json::parse_event_t::object_end)
      objects.pop_back();
    else if (event == nlohmann::json::parse_event_t::key)
      add(parsed.get_ref<const std::string &>());
    return true;
  }
  std::string twice; ///< the first of them, with the keys around it; empty: none

private:
  struct Object {
    std::set<std::string> keys;
    std::string last;
  };

  void add(const std::string &key) {
    Object &object = objects.back();
    object.last = key;
    if (object.keys.insert(key).second || !twice.empty())
      return;
    for (const Object &around : objects)
      twice += (twice.empty() ? "" : ".") + around.last;
  }

  std::vector<Object> objects; ///< those that are open, the outermost first
};

} // namespace

Result<nlohmann::json> parseJson(std::string_view text) {
  KeysOnce keys;
  try {
    nlohmann::json json = nlohmann::json::parse(text, std::ref(keys));
    if (!keys.twice.empty())
      return Status::badInput(keys.twice + ": stands in its object twice");
    return json;
  } catch (const nlohmann::json::exception &error) {
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." -> from "line" on.
    size_t at = what.find("line ");
    return Status::badInput("not JSON: " + (at == std::string::npos ? what : what.substr(at)));
  }
}

JsonFields::JsonFields(const nlohmann::json &json, std::string place)
    : json(json), place(std::move(place)) {
  if (!json.is_object())
    first = Status::badInput((this->place.empty() ? std::string("the file") : this->place) +
                             ": expected an object, found " + json.type_name());
}

std::string JsonFields::placeOf(std::string_view key) const {
  return place.empty() ? std::string(key) : place + "." + std::string(key);
}

void JsonFields::fail(std::string_view key, const std::string &what) {
  if (first.isOk())
    first = Status::badInput(placeOf(key) + ": " + what);
}

bool JsonFields::has(const char *key) const { return json.is_object() && json.contains(key); }

const nlohmann::json *JsonFields::fetch(const char *key, bool demanded) {
  known.insert(key);
  if (has(key))
    return &json.at(key);
  if (demanded)
    fail(key, "missing");
  return nullptr;
}

std::string JsonFields::text(const char *key) {
  const nlohmann::json *value = fetch(key, true);
  if (!value)
    return "";
  if (value->is_string())
    return value->get<std::string>();
  fail(key, std::string("expected a string, found ") + value->type_name());
  return "";
}

std::string JsonFields::text(const char *key, std::string absent) {
  known.insert(key);
  return has(key) ? text(key) : absent;
}

double JsonFields::number(const char *key, double least, double most) {
  const nlohmann::json *value = fetch(key, true);
  if (!value)
    return least;
  if (!value->is_number()) {
    fail(key, std::string("expected a number, found ") + value->type_name());
    return least;
  }
  double held = value->get<double>();
  if (!std::isfinite(held) || held < least || held > most) {
    fail(key, "expected a number in [" + numberText(least) + ", " + numberText(most) + "], found " +
                  numberText(held));
    return least;
  }
  return held;
}

double JsonFields::number(const char *key, double least, double most, double absent) {
  known.insert(key);
  return has(key) ? number(key, least, most) : absent;
}

int64_t JsonFields::integer(const char *key, int64_t least, int64_t most) {
  const nlohmann::json *value = fetch(key, true);
  if (!value)
    return least;
  if (!value->is_number_integer()) {
    fail(key, std::string("expected an integer, found ") +
                  (value->is_number() ? value->dump() : std::string(value->type_name())));
    return least;
  }
  bool tooLarge =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  int64_t held = tooLarge ? INT64_MAX : value->get<int64_t>();
  if (tooLarge || held < least || held > most) {
    fail(key, "expected an integer in [" + std::to_string(least) + ", " + std::to_string(most) +
                  "], found " + value->dump());
    return least;
  }
  return held;
}

int64_t JsonFields::integer(const char *key, int64_t least, int64_t most, int64_t absent) {
  known.insert(key);
  return has(key) ? integer(key, least, most) : absent;
}

bool JsonFields::truth(const char *key, bool absent) {
  const nlohmann::json *value = fetch(key, false);
  if (!value || value->is_boolean())
    return value ? value->get<bool>() : absent;
  fail(key, std::string("expected true or false, found ") + value->type_name());
  return absent;
}

const nlohmann::json &JsonFields::array(const char *key) {
  const nlohmann::json *value = fetch(key, true);
  if (!value)
    return nullJson();
  if (value->is_array())
    return *value;
  fail(key, std::string("expected a list, found ") + value->type_name());
  return nullJson();
}

const nlohmann::json &JsonFields::object(const char *key) {
  const nlohmann::json *value = fetch(key, true);
  if (!value)
    return nullJson();
  if (value->is_object())
    return *value;
  fail(key, std::string("expected an object, found ") + value->type_name());
  return nullJson();
}

std::vector<std::string> JsonFields::texts(const char *key) {
  std::vector<std::string> result;
  known.insert(key);
  if (!has(key))
    return result;
  const nlohmann::json &list = array(key);
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string()) {
      fail(std::string(key) + "[" + std::to_string(i) + "]",
           std::string("expected a string, found ") + list[i].type_name());
      return result;
    }
    result.push_back(list[i].get<std::string>());
  }
  return result;
}

void JsonFields::header(const std::string &kind, int64_t version, bool mayLackVersion) {
  std::string foundKind = text("kind");
  if (first.isOk() && foundKind != kind)
    fail("kind", "expected \"" + kind + "\", found \"" + foundKind + "\"");
  if (mayLackVersion && !has("version"))
    return;
  int64_t foundVersion = integer("version", 0, INT64_MAX);
  if (first.isOk() && foundVersion != version)
    fail("version", "expected " + std::to_string(version) + ", found " +
                        std::to_string(foundVersion) +
                        "; convert the file or use the matching "
                        "release");
}

Status JsonFields::finish() const {
  if (!first.isOk())
    return first;
  for (const auto &[key, value] : json.items()) {
    if (known.count(key))
      continue;
    std::string expected;
    for (const std::string &one : known)
      expected += (expected.empty() ? "" : ", ") + one;
    return Status::badInput(placeOf(key) + ": unknown key; known here: " + expected +
                            " (units are part of the key)");
  }
  return Status::ok();
}

} // namespace autopar
