// SPDX-License-Identifier: Apache-2.0
// A table of what may be demanded, and a parser that points at characters.
#include "autopar/Plan/Constraints.h"

#include "autopar/Base/TextCursor.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <sstream>

namespace autopar {
namespace {

enum class Kind { Count, CountOrAuto, Word, Axes, Truth, ZeroStage, Recomputation, Offload };

struct Setting {
  const char *key;
  Kind kind;
  const char *decidedBy; ///< before shardings are searched; null for what the search does
};

constexpr const char *kCutStages = "autopar-cut-stages";

constexpr Setting kSettings[] = {
    {"stages", Kind::CountOrAuto, kCutStages},
    {"virtual-stages", Kind::Count, kCutStages},
    {"micro-batches", Kind::CountOrAuto, "autopar-split-micro-batches"},
    {"schedule", Kind::Word, kCutStages},
    {"mesh", Kind::Axes, "the option mesh"},
    {"batch-axis", Kind::Word, nullptr},
    {"context-axis", Kind::Word, nullptr},
    {"expert-axis", Kind::Word, nullptr},
    {"weight-axis", Kind::Word, nullptr},
    {"sequence", Kind::Truth, nullptr},
    {"zero", Kind::ZeroStage, nullptr},
    {"recompute", Kind::Recomputation, "the option recompute of auto-shard"},
    {"offload", Kind::Offload, "autopar-compile"},
};

const Setting *findSetting(const std::string &key) {
  const Setting *found = std::find_if(std::begin(kSettings), std::end(kSettings),
                                      [&](const Setting &setting) { return key == setting.key; });
  return found == std::end(kSettings) ? nullptr : found;
}

/// So that products of two numbers are numbers too.
constexpr int64_t kMostCount = 1 << 24;

std::optional<int64_t> countOf(std::string_view text) {
  int64_t count = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMostCount)
    return std::nullopt;
  return count;
}

/// "data=2xtensor=2", "data=2*tensor=2" or "data=2,tensor=2"; nothing where it is none of these.
std::optional<std::vector<MeshAxis>> axesOf(std::string_view text) {
  std::vector<MeshAxis> axes;
  size_t at = 0;
  while (true) {
    size_t equals = text.find('=', at);
    if (equals == std::string_view::npos || equals == at)
      return std::nullopt;
    size_t end = equals + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])))
      ++end;
    std::optional<int64_t> size = countOf(text.substr(equals + 1, end - equals - 1));
    if (!size)
      return std::nullopt;
    axes.push_back({std::string(text.substr(at, equals - at)), *size});
    if (end == text.size())
      return axes;
    if (text[end] != 'x' && text[end] != '*' && text[end] != ',')
      return std::nullopt;
    at = end + 1;
  }
}

/// Meshes parted by '/'; nothing where one of them is none.
std::optional<std::vector<std::vector<MeshAxis>>> meshesOf(std::string_view text) {
  std::vector<std::vector<MeshAxis>> meshes;
  while (true) {
    size_t end = text.find('/');
    std::optional<std::vector<MeshAxis>> axes = axesOf(text.substr(0, end));
    if (!axes)
      return std::nullopt;
    meshes.push_back(*axes);
    if (end == std::string_view::npos)
      return meshes;
    text.remove_prefix(end + 1);
  }
}

/// What is wrong with a value; empty where nothing is.
std::string whyNot(Kind kind, const std::string &value) {
  bool isFine = false;
  const char *expected = "";
  switch (kind) {
  case Kind::CountOrAuto:
    isFine = value == "auto" || countOf(value);
    expected = "a number from 1 to 16777216, or auto";
    break;
  case Kind::Count:
    isFine = countOf(value).has_value();
    expected = "a number from 1 to 16777216";
    break;
  case Kind::Word:
    isFine = !value.empty();
    expected = "a name";
    break;
  case Kind::Axes:
    isFine = meshesOf(value).has_value();
    expected = "axes such as data=2xtensor=4, or data=1/data=3 for two stages";
    break;
  case Kind::Truth:
    isFine = value == "true" || value == "false";
    expected = "true or false";
    break;
  case Kind::ZeroStage:
    isFine = value.size() == 1 && value[0] >= '0' && value[0] <= '3';
    expected = "0, 1, 2 or 3";
    break;
  case Kind::Recomputation:
    isFine = value == "none" || value == "auto" || value == "full";
    expected = "none, auto or full";
    break;
  case Kind::Offload:
    isFine = value == "none" || value == "state" || value == "activations" || value == "all" ||
             value == "auto";
    expected = "none, state, activations, all or auto";
    break;
  }
  return isFine ? "" : std::string("expected ") + expected + ", got \"" + value + "\"";
}

std::string textOf(const std::vector<AxisList> &dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += i ? ", " : "";
    for (size_t k = 0; k < dims[i].size(); ++k)
      text += (k ? "*" : "") + dims[i][k];
    text += dims[i].empty() ? "-" : "";
  }
  return text + "]";
}

std::string textOf(const Constraints::Sharding &sharding) {
  if (sharding.stage >= 0)
    return sharding.name + ": stage " + std::to_string(sharding.stage);
  return sharding.name + ": " + (sharding.isForbidden ? "not " : "") + textOf(sharding.axes);
}

/// A name has one demanded sharding, one stage, and any number of forbidden shardings.
std::string keyOf(const Constraints::Sharding &sharding) {
  if (sharding.stage >= 0)
    return "stage of " + sharding.name;
  return sharding.isForbidden ? textOf(sharding) : sharding.name;
}

class Parser : public TextCursor {
public:
  Parser(const std::string &what, const std::string &text)
      : TextCursor(text), what(what), text(text) {}

  Status error(size_t position, const std::string &message) const {
    return Status::badInput(source(position) + ": " + message);
  }
  std::string source(size_t position) const {
    return what + " \"" + text + "\" at character " + std::to_string(position + 1);
  }
  /// Up to one of `stops`; a ':' stops only before a space or '[', since names have colons.
  std::string word(std::string_view stops) {
    skipSpace();
    size_t begin = at;
    while (
        at < text.size() && stops.find(text[at]) == std::string_view::npos &&
        !(text[at] == ':' && (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '[')))
      ++at;
    size_t end = at;
    while (end > begin && std::isspace(static_cast<unsigned char>(text[end - 1])))
      --end;
    return text.substr(begin, end - begin);
  }
  /// "[data*tensor, -]" behind its bracket.
  Status dims(std::vector<AxisList> &dims) {
    if (accept(']'))
      return Status::ok();
    while (true) {
      dims.emplace_back();
      while (true) {
        size_t begin = at;
        std::string axis = word(",]*");
        if (axis.empty())
          return error(begin, "expected the name of a mesh axis, or '-'");
        if (axis != "-")
          dims.back().push_back(axis);
        if (!accept('*'))
          break;
      }
      if (accept(']'))
        return Status::ok();
      if (!accept(','))
        return error(at, "expected ',' or ']'");
    }
  }

private:
  const std::string &what, &text;
};

std::string knownKeys() {
  std::string keys;
  for (const Setting &setting : kSettings)
    keys += std::string(keys.empty() ? "" : ", ") + setting.key;
  return keys;
}

} // namespace

Result<Constraints> Constraints::parse(const std::string &what, const std::string &text) {
  Constraints result;
  Parser parser(what, text);
  while (!parser.isAtEnd()) {
    size_t begin = parser.at;
    std::string key = parser.word("=,[");
    if (key.empty())
      return parser.error(begin, "expected key=value or name: [sharding]");
    Demand demand;
    demand.source = parser.source(begin);
    bool isSetting = parser.accept('=');
    if (isSetting) {
      if (!findSetting(key))
        return parser.error(begin, "unknown key \"" + key + "\"; known are " + knownKeys());
      parser.skipSpace();
      size_t valueAt = parser.at;
      demand.value = parser.word(",");
      if (std::string why = whyNot(findSetting(key)->kind, demand.value); !why.empty())
        return parser.error(valueAt, key + ": " + why);
    } else {
      bool hasColon = parser.accept(':');
      demand.sharding.isForbidden = hasColon && parser.acceptWord("not");
      if (hasColon && !demand.sharding.isForbidden && parser.acceptWord("stage")) {
        size_t numberAt = parser.at;
        std::string number = parser.word(",");
        if (number != "0" && !countOf(number))
          return parser.error(numberAt, "expected the number of a stage");
        demand.sharding.stage = countOf(number).value_or(0);
      } else {
        if (!hasColon || !parser.accept('['))
          return parser.error(parser.at, "expected '=' and a value, or ': [' and a sharding");
        AUTOPAR_RETURN_IF_ERROR(parser.dims(demand.sharding.axes));
      }
      demand.sharding.name = key;
      key = keyOf(demand.sharding);
    }
    if (!(isSetting ? result.settings : result.values).emplace(key, std::move(demand)).second)
      return parser.error(begin, "\"" + key + "\" is given twice");
    if (!parser.accept(',') && !parser.isAtEnd())
      return parser.error(parser.at, "expected ','");
  }
  return result;
}

std::string Constraints::toText() const {
  std::string text;
  for (const auto &[key, demand] : settings)
    text += (text.empty() ? "" : ", ") + key + "=" + demand.value;
  for (const auto &[name, demand] : values)
    text += (text.empty() ? "" : ", ") + textOf(demand.sharding);
  return text;
}

Status Constraints::demand(const std::string &what, const std::string &key,
                           const std::string &value) {
  const Setting *setting = findSetting(key);
  if (!setting)
    return Status::badInput(what + ": unknown key \"" + key + "\"; known are " + knownKeys());
  if (std::string why = whyNot(setting->kind, value); !why.empty())
    return {StatusCode::Usage, what + ": " + why};
  // A flag may part axes by commas, a text of demands may not.
  std::string kept = value;
  if (setting->kind == Kind::Axes)
    std::replace(kept.begin(), kept.end(), ',', 'x');
  auto [it, isNew] = settings.try_emplace(key, Demand{kept, Sharding(), what});
  if (!isNew && it->second.value != kept)
    return {StatusCode::Usage, what + " demands " + key + "=" + kept + ", but " +
                                   it->second.source + " demands " + it->second.value};
  return Status::ok();
}

Status Constraints::demand(const Constraints &other) {
  for (const auto &[key, demanded] : other.settings)
    AUTOPAR_RETURN_IF_ERROR(demand(demanded.source, key, demanded.value));
  for (const auto &[name, demanded] : other.values)
    if (auto [it, isNew] = values.try_emplace(name, demanded);
        !isNew && !(it->second.sharding == demanded.sharding))
      return {StatusCode::Usage, demanded.source + " demands " + textOf(demanded.sharding) +
                                     ", but " + it->second.source + " demands " +
                                     textOf(it->second.sharding)};
  return Status::ok();
}

std::string Constraints::word(const std::string &key) const {
  auto it = settings.find(key);
  return it == settings.end() ? "" : it->second.value;
}

AxisList Constraints::axes(const std::string &key) const {
  AxisList names;
  std::stringstream text(word(key));
  for (std::string name; std::getline(text, name, '*');)
    names.push_back(name);
  return names;
}

int64_t Constraints::number(const std::string &key, int64_t absent) const {
  auto it = settings.find(key);
  if (it == settings.end())
    return absent;
  return countOf(it->second.value).value_or(0);
}

std::vector<MeshAxis> Constraints::mesh() const {
  std::vector<std::vector<MeshAxis>> all = meshes();
  return all.size() == 1 ? all.front() : std::vector<MeshAxis>();
}

int64_t Constraints::expertParts() const {
  AxisList experts = axes("expert-axis");
  int64_t parts = 1;
  for (const std::vector<MeshAxis> &axes : meshes()) {
    int64_t ranks = 1;
    for (const MeshAxis &axis : axes)
      if (std::find(experts.begin(), experts.end(), axis.name) != experts.end())
        ranks *= axis.size;
    parts = std::lcm(parts, ranks);
  }
  return parts;
}

std::vector<std::vector<MeshAxis>> Constraints::meshes() const {
  auto it = settings.find("mesh");
  if (it == settings.end())
    return {};
  return meshesOf(it->second.value).value_or(std::vector<std::vector<MeshAxis>>());
}

std::vector<Constraints::Sharding> Constraints::shardings() const {
  std::vector<Sharding> all;
  for (const auto &[key, demand] : values)
    if (demand.sharding.stage < 0)
      all.push_back(demand.sharding);
  return all;
}

std::map<std::string, int64_t> Constraints::stages() const {
  std::map<std::string, int64_t> all;
  for (const auto &[key, demand] : values)
    if (demand.sharding.stage >= 0)
      all[demand.sharding.name] = demand.sharding.stage;
  return all;
}

void Constraints::demandSharding(const std::string &what, const std::string &name,
                                 std::vector<AxisList> axes) {
  Sharding sharding{name, std::move(axes)};
  values.try_emplace(keyOf(sharding), Demand{"", sharding, what});
}

void Constraints::demandStage(const std::string &what, const std::string &name, int64_t stage) {
  Sharding sharding{name, {}, false, stage};
  values.try_emplace(keyOf(sharding), Demand{"", sharding, what});
}

void Constraints::forbid(const std::string &what, const std::string &name,
                         std::vector<AxisList> axes) {
  Sharding sharding{name, std::move(axes), true};
  values.try_emplace(keyOf(sharding), Demand{"", sharding, what});
}

bool Constraints::Sharding::matches(std::string_view id) const {
  size_t at = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '*') {
      if (at >= id.size() || id[at++] != name[i])
        return false;
      continue;
    }
    // A part ends where the name goes on: at a separator, or at the end.
    while (at < id.size() && id[at] != '.' && id[at] != '/')
      ++at;
  }
  return at == id.size();
}

Constraints Constraints::ofShardings() const {
  Constraints kept = *this;
  std::erase_if(kept.settings,
                [](const auto &entry) { return findSetting(entry.first)->decidedBy != nullptr; });
  kept.dropStages();
  return kept;
}

void Constraints::dropStages() {
  std::erase_if(values, [](const auto &entry) { return entry.second.sharding.stage >= 0; });
}

Status Constraints::checkOfShardings() const {
  auto refuse = [](const Demand &demand, const std::string &what, const char *who) {
    return Status::badInput(demand.source + ": " + what +
                            " is decided before shardings are searched, by " + who);
  };
  for (const auto &[key, demand] : settings)
    if (const char *who = findSetting(key)->decidedBy)
      return refuse(demand, key, who);
  for (const auto &[key, demand] : values)
    if (demand.sharding.stage >= 0)
      return refuse(demand, "the stage of \"" + demand.sharding.name + "\"", kCutStages);
  return Status::ok();
}

Status Constraints::errorAt(const std::string &key, const std::string &message) const {
  auto value = std::find_if(values.begin(), values.end(),
                            [&](const auto &entry) { return entry.second.sharding.name == key; });
  auto setting = settings.find(key);
  const Demand *demand = value != values.end()       ? &value->second
                         : setting != settings.end() ? &setting->second
                                                     : nullptr;
  return Status::badInput((demand ? demand->source + ": " : "") + message);
}

} // namespace autopar
