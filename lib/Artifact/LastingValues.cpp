// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Artifact/LastingValues.h"

#include "autopar/Artifact/InstructionBuffers.h"

#include <map>
#include <set>

namespace autopar::artifact {
namespace {

/// Text of parts that cannot run into each other.
class Identity {
public:
  Identity &add(const std::string &part) {
    text += std::to_string(part.size()) + ":" + part;
    return *this;
  }
  Identity &add(int64_t number) { return add(std::to_string(number)); }
  Identity &add(const std::vector<int64_t> &numbers) {
    add(int64_t(numbers.size()));
    for (int64_t number : numbers)
      add(number);
    return *this;
  }
  Digest digest() const { return Digest::of(text.data(), text.size()); }
  const std::string &words() const { return text; }

private:
  std::string text;
};

class LastingValueFinder {
public:
  LastingValueFinder(const Reader &reader, int32_t rank, const LastingFacts &facts)
      : reader(reader), program(reader.programOfRank(rank)), table(reader.rank(rank)),
        facts(facts) {
    for (const Port &port : program.ports)
      if (port.buffer >= 0)
        ++portsOf[program.rootOf(port.buffer)];
    for (const Entry &entry : program.entries)
      for (const Instruction &instruction : entry.instructions) {
        for (int32_t buffer : buffersOf(instruction.payload).written)
          written.insert(program.rootOf(buffer));
        if (auto *pack = std::get_if<Pack>(&instruction.payload); pack && entry.name == "load")
          packs[pack->dst] = pack;
      }
  }

  std::vector<LastingValue> find() {
    std::vector<LastingValue> found;
    if (!program.madeValues)
      return found;
    for (size_t i = 0; i < program.ports.size(); ++i) {
      const Port &port = program.ports[i];
      bool lasts =
          port.role == Role::State || (port.role == Role::Parameter && !written.count(port.buffer));
      if (lasts && port.buffer >= 0 && program.rootOf(port.buffer) == port.buffer &&
          portsOf[port.buffer] == 1)
        found.push_back(
            {port.buffer, identityOf(i).add(longOnes(shapeOf(port.buffer), port.shape)).digest()});
    }
    for (const MadeValue &value : *program.madeValues) {
      Identity identity;
      identity.add("made").add(value.recipe.hex()).add(program.buffers[size_t(value.buffer)].bytes);
      if (auto pack = packs.find(value.buffer); pack != packs.end()) {
        std::string layout = facts.layoutOf(*pack->second);
        if (layout.empty())
          continue;
        identity.add(layout);
      }
      for (int32_t port : value.ports)
        identity.add(identityOf(size_t(port)).words());
      found.push_back({value.buffer, identity.digest()});
    }
    return found;
  }

private:
  const Reader &reader;
  const Program &program;
  const RankTable &table;
  const LastingFacts &facts;
  std::map<int32_t, int32_t> portsOf;    ///< per buffer
  std::map<int32_t, const Pack *> packs; ///< of load, by what they write
  std::set<int32_t> written;             ///< by any instruction; no views

  const std::vector<int64_t> &shapeOf(int32_t buffer) const {
    return program.buffers[size_t(buffer)].shape;
  }

  /// Dimensions of one element part nothing.
  static std::vector<int64_t> longOnes(const std::vector<int64_t> &numbers,
                                       const std::vector<int64_t> &shape) {
    std::vector<int64_t> kept;
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != 1)
        kept.push_back(numbers[d]);
    return kept;
  }

  /// The part of a parameter or state that the rank holds.
  Identity identityOf(size_t index) const {
    const Port &port = program.ports[index];
    const PortShard &shard = table.ports[index];
    Identity identity;
    identity.add(port.role == Role::State ? "state" : "parameter").add(port.name);
    identity.add(int64_t(port.dtype));
    for (const std::vector<int64_t> *numbers : {&port.shape, &shard.offset, &shard.extent})
      identity.add(longOnes(*numbers, port.shape));
    return port.role == Role::State ? identity : identity.add(sourceOf(port));
  }

  std::string sourceOf(const Port &port) const {
    if (std::string other = facts.replacedBy(port); !other.empty())
      return "given " + other;
    const Source &source = port.source;
    switch (source.kind) {
    case SourceKind::File:
      return "bytes " + source.digest.hex();
    case SourceKind::Constants:
      return "bytes " +
             Digest::of(reader.constants().data() + source.offset, size_t(source.length)).hex();
    case SourceKind::Absent:
      return "drawn " + source.drawn;
    case SourceKind::None:
      break;
    }
    return "zeros";
  }
};

} // namespace

std::vector<LastingValue> lastingValues(const Reader &reader, int32_t rank,
                                        const LastingFacts &facts) {
  return LastingValueFinder(reader, rank, facts).find();
}

} // namespace autopar::artifact
