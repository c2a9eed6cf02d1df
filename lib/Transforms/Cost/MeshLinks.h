// SPDX-License-Identifier: Apache-2.0
// Messages from mesh to mesh on the event engine: all ranks of a mesh do the same, so that one of
// them stands for all, with as many messages at once as each of them sends or receives.
#pragma once

#include "autopar/Cost/CostModel.h"
#include "autopar/VirtualTime/EventEngine.h"

#include <map>
#include <vector>

namespace mlir::autopar {

/// What the ranks of a mesh send to those of another for one value.
struct MeshMessage {
  ::autopar::MessageTime each; ///< of the messages
  ::autopar::SharedLinks::Path path{};
  bool spansNodes = false;

  /// Where no other message shares the links.
  double us() const;
  /// What a rank that receives or sends cannot compute meanwhile.
  double lossUs(bool receives) const { return each.lossUs * path[receives ? 1 : 0].flows; }
  /// Of a receiver that does one thing at a time.
  double receivingUs() const;
  /// Until the next message between the two may begin: latencies go on beside others.
  double bytesUs() const;
  /// Makes the task one that takes as long as the bytes of the message.
  void take(::autopar::VirtualTask &task) const;
};

class MeshLinks {
public:
  /// Both outlive it.
  MeshLinks(const std::vector<::autopar::Mesh> &meshes, const ::autopar::Cluster &cluster)
      : meshes(meshes), cluster(cluster) {}

  /// Each rank of `from` sends `sends` messages of so many bytes, each of `to` gets `receives`.
  MeshMessage message(int32_t from, int32_t to, double bytes, double sends, double receives);
  /// The few send to several each, or receive from several a part each: `bytes` is what each
  /// receives altogether.
  MeshMessage message(int32_t from, int32_t to, double bytes);
  /// How many ports the paths of messages may name.
  size_t ports() const { return 2 * meshes.size() * cluster.levels.size(); }

private:
  /// Of a message: its two ranks as a group, and the level of the link between them.
  struct Ends {
    ::autopar::MeshGroup group;
    int64_t level = 0;
  };
  const Ends &endsOf(int32_t from, int32_t to);

  const std::vector<::autopar::Mesh> &meshes;
  const ::autopar::Cluster &cluster;
  std::map<std::pair<int32_t, int32_t>, Ends> ends;
};

} // namespace mlir::autopar
