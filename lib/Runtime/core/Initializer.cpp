// SPDX-License-Identifier: Apache-2.0
// Numbers for parameters: a counter-based generator, so that element i is the same whoever computes
// it; or the bytes of a file.
#include "autopar/Runtime/Initializer.h"

#include "BoxRows.h"
#include "InitializerParser.h"
#include "autopar/Base/Digest.h"
#include "autopar/Base/Mix.h"
#include "autopar/Runtime/FloatElement.h"
#include "autopar/Runtime/ParameterStore.h"
#include "autopar/Runtime/Session.h"
#include "autopar/Runtime/WeightFiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace autopar::runtime {

using artifact::Port;
using artifact::Program;
using artifact::Role;
using artifact::SourceKind;

namespace {

/// In (0, 1).
double unit(uint64_t bits) { return (double(bits >> 11) + 0.5) * 0x1.0p-53; }

/// '*' stands for any characters, '?' for one.
bool fits(const char *pattern, const char *name) {
  if (*pattern == '*')
    return fits(pattern + 1, name) || (*name && fits(pattern, name + 1));
  if (!*pattern || !*name)
    return *pattern == *name;
  return (*pattern == '?' || *pattern == *name) && fits(pattern + 1, name + 1);
}

bool isParameter(const Port &port) {
  bool isKept = port.role == Role::State || port.role == Role::Parameter;
  return isKept && port.source.kind != SourceKind::None;
}

/// What is drawn: parameters without weights, and those that a step trains.
bool isDrawn(const Port &port) {
  return isParameter(port) && (port.role == Role::State || port.source.kind == SourceKind::Absent);
}

std::string text(DataType dtype, const std::vector<int64_t> &shape) {
  return describe({TensorSpec{"", dtype, shape, 0}}).substr(2);
}

/// "a, b, c, ..."
std::string firstOf(const std::vector<std::string> &names) {
  constexpr size_t shown = 5;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), shown); ++i)
    list += (i ? ", " : "") + names[i];
  return names.size() > shown ? list + ", ..." : list;
}

/// "3 tensors", "1 tensor".
std::string counted(size_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "weights.safetensors has 148 tensors: a, b, c, ..."
std::string describe(const WeightFiles &files) {
  std::vector<std::string> names = files.names();
  return files.path + " has " + counted(names.size(), "tensor") + ": " + firstOf(names);
}

} // namespace

Result<Initializer> Initializer::parse(const std::string &text) {
  if (!WeightFiles::isMeant(text)) {
    auto parsed = InitializerParser(text).run();
    if (parsed)
      parsed->words = text;
    return parsed;
  }
  auto files = WeightFiles::open(text);
  if (!files)
    return files.status();
  Initializer result;
  result.words = text;
  result.files = files.take();
  return result;
}

std::string Initializer::identity() const { return words + (files ? " " + files->version : ""); }

const Initializer::Rule *Initializer::ruleFor(const Port &port) const {
  for (const Rule &rule : rules)
    if (fits(rule.pattern.c_str(), port.name.c_str()))
      return &rule;
  return nullptr;
}

bool Initializer::isTransposed(const Port &port) const {
  return !port.transposeOf.empty() && files->find(port.transposeOf);
}

std::string Initializer::nameInFiles(const Port &port) const {
  return isTransposed(port) ? port.transposeOf : port.name;
}

bool Initializer::covers(const Port &port) const {
  if (files)
    return isParameter(port) && files->find(nameInFiles(port));
  return isDrawn(port) && ruleFor(port);
}

/// A rule with a fan as one without, for a weight [out, in, ...]. Glorot and Bengio, AISTATS 2010;
/// He et al., ICCV 2015.
Result<Initializer::Rule> Initializer::scaled(const Rule &rule, const Port &port) {
  if (rule.fan == Rule::Fan::None)
    return rule;
  std::vector<int64_t> shape = port.callerShape();
  if (shape.size() < 2)
    return Status::badInput("parameter " + port.name + ": " + rule.text +
                            " needs a weight of at least two dimensions, it is " +
                            text(port.dtype, shape));
  double kernel = 1;
  for (size_t d = 2; d < shape.size(); ++d)
    kernel *= double(shape[d]);
  double in = double(shape[size_t(rule.inputDim)]) * kernel,
         out = double(shape[size_t(1 - rule.inputDim)]) * kernel;
  double fan = rule.fan == Rule::Fan::Xavier ? (in + out) / 2 : in;
  Rule result = rule;
  result.fan = Rule::Fan::None;
  double deviation = rule.a / std::sqrt(std::max(fan, 1.0));
  if (rule.kind == Rule::Kind::Normal) {
    result.a = 0;
    result.b = deviation;
  } else {
    result.b = deviation * std::sqrt(3.0);
    result.a = -result.b;
  }
  return result;
}

Status Initializer::check(const std::vector<const Port *> &ports) const {
  std::vector<bool> used(rules.size(), false);
  bool any = false;
  for (const Port *each : ports) {
    const Port &port = *each;
    any |= covers(port);
    if (!covers(port)) {
      if (port.source.kind == SourceKind::Absent && port.source.drawn.empty())
        return Status::badInput(
            "parameter " + port.name + " has no weights, and the initializer " +
            (files ? "does not give it: " + describe(*files) : "has no pattern for it"));
      continue;
    }
    if (files) {
      const SafetensorsEntry &entry = files->find(nameInFiles(port))->entry;
      std::vector<int64_t> shape = isTransposed(port) ? port.sourceShape() : port.callerShape();
      bool isConverted = isFloat(entry.dtype) && isFloat(port.dtype);
      if (entry.shape != shape || (entry.dtype != port.dtype && !isConverted))
        return Status::badInput("parameter " + nameInFiles(port) + ": expected " +
                                text(port.dtype, shape) + ", the file has " +
                                text(entry.dtype, entry.shape));
      continue;
    }
    const Rule *rule = ruleFor(port);
    used[size_t(rule - rules.data())] = true;
    if (auto drawn = scaled(*rule, port); !drawn)
      return drawn.status();
  }
  if (files && !any)
    return Status::badInput("no parameter is in the file: " + describe(*files));
  if (!files &&
      std::none_of(ports.begin(), ports.end(), [](const Port *port) { return isDrawn(*port); }))
    return Status::badInput("the initializer has nothing to fill: all parameters have weights, and "
                            "only those that a training step trains are drawn anew");
  for (size_t i = 0; i < rules.size(); ++i)
    if (!used[i])
      return {StatusCode::Usage, "initializer: no parameter is called \"" + rules[i].pattern +
                                     "\", or an earlier pattern takes it; names as in the model "
                                     "file, * stands for any characters"};
  return Status::ok();
}

std::vector<std::string> Initializer::remarks(const std::vector<const Port *> &ports) const {
  if (!files)
    return {};
  std::vector<std::string> kept, drawn, unread, result;
  std::set<std::string> read;
  bool addsToModel = false; // what it has none of, such as adapters; the rest is meant to stay
  for (const Port *port : ports)
    if (covers(*port)) {
      read.insert(nameInFiles(*port));
      addsToModel |= port->source.kind == SourceKind::Absent;
    } else if (port->source.kind == SourceKind::File) {
      kept.push_back(port->sourceName());
    } else if (!port->source.drawn.empty()) {
      drawn.push_back(port->sourceName());
    }
  for (const std::string &name : files->names())
    if (!read.count(name))
      unread.push_back(name);
  if (!unread.empty())
    result.push_back(counted(unread.size(), "tensor") + " of " + files->path +
                     (unread.size() == 1 ? " is no parameter" : " are no parameters") +
                     " of this program: " + firstOf(unread));
  if (!kept.empty() && !addsToModel)
    result.push_back(counted(kept.size(), "parameter") + " not in " + files->path +
                     (kept.size() == 1 ? " starts" : " start") +
                     " from the model's weights: " + firstOf(kept));
  if (!drawn.empty())
    result.push_back(counted(drawn.size(), "parameter") + " not in " + files->path +
                     (drawn.size() == 1 ? " is drawn: " : " are drawn: ") + firstOf(drawn));
  return result;
}

/// Element `index` of a tensor that has the key.
double Initializer::draw(const Rule &rule, uint64_t key, uint64_t index) {
  if (rule.kind == Rule::Kind::Constant)
    return rule.a;
  double u = unit(mix(key ^ mix(2 * index)));
  if (rule.kind == Rule::Kind::Uniform)
    return rule.a + (rule.b - rule.a) * u;
  double v = unit(mix(key ^ mix(2 * index + 1))); // Box and Muller, 1958
  return rule.a + rule.b * std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

/// The bytes of a tensor of files, converted and turned as the port has it.
void Initializer::copyFromFiles(const Port &port, const Box &box, uint8_t *local,
                                const std::vector<int64_t> &localShape) const {
  int64_t size = byteSize(port.dtype);
  const WeightFiles::Tensor &tensor = *files->find(nameInFiles(port));
  DataType stored = tensor.entry.dtype;
  bool turns = isTransposed(port);
  if (stored == port.dtype && !turns)
    return copyBoxToLocal(tensor.data, port.shape, box, local, localShape, size);
  forEachRow(port.shape, box, localShape, [&](int64_t first, int64_t at, int64_t count) {
    for (int64_t global = first; global < first + count; ++global, ++at) {
      int64_t place = global;
      if (turns) {
        int64_t rows = tensor.entry.shape[0], columns = tensor.entry.shape[1];
        place = global % rows * columns + global / rows;
      }
      const uint8_t *from = tensor.data + place * byteSize(stored);
      if (stored == port.dtype)
        std::memcpy(local + at * size, from, size_t(size));
      else
        storeFloat(port.dtype, loadFloat(stored, from), local + at * size);
    }
  });
}

Status Initializer::fill(const Port &port, const Box &box, void *local,
                         const std::vector<int64_t> &localShape) const {
  auto *out = static_cast<uint8_t *>(local);
  if (files) {
    copyFromFiles(port, box, out, localShape);
    return Status::ok();
  }
  auto rule = scaled(*ruleFor(port), port);
  if (!rule)
    return rule.status();
  Digest digest = Digest::of(port.name.data(), port.name.size());
  uint64_t name;
  std::memcpy(&name, digest.bytes.data(), 8);
  uint64_t key = mix(seed ^ mix(name));
  int64_t size = byteSize(port.dtype);
  forEachRow(port.shape, box, localShape, [&](int64_t first, int64_t at, int64_t count) {
    for (int64_t global = first; global < first + count; ++global, ++at)
      storeFloat(port.dtype, draw(*rule, key, uint64_t(global)), out + at * size);
  });
  return Status::ok();
}

} // namespace autopar::runtime
