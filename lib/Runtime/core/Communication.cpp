// SPDX-License-Identifier: Apache-2.0
// Addresses of buffers and ranks of the table, for the communicator.
#include "Communication.h"

namespace autopar::runtime {

using namespace artifact;

bool isCommunication(const Payload &payload) {
  return std::holds_alternative<Collective>(payload) || std::holds_alternative<Permute>(payload) ||
         std::holds_alternative<Send>(payload) || std::holds_alternative<Recv>(payload);
}

Result<Token> communicate(const Payload &payload, int32_t slot, const RankTable &table,
                          Device &device, Communicator &communicator) {
  if (auto *p = std::get_if<Collective>(&payload)) {
    CollectiveCall call{p->kind,
                        p->reduction,
                        p->dtype,
                        p->count,
                        device.address(p->input, slot),
                        device.address(p->output, slot),
                        &table.groups[size_t(p->group)].members};
    return communicator.collective(call);
  }
  if (auto *p = std::get_if<Permute>(&payload)) {
    const Permutation &move = table.permutations[size_t(p->permutation)];
    return communicator.permute(device.address(p->input, slot), device.address(p->output, slot),
                                p->bytes, move.sendTo, move.receiveFrom);
  }
  if (auto *p = std::get_if<Send>(&payload))
    return communicator.send(table.peers[size_t(p->peer)], p->tag + slot,
                             device.address(p->buffer, slot), p->bytes);
  if (auto *p = std::get_if<Recv>(&payload))
    return communicator.receive(table.peers[size_t(p->peer)], p->tag + slot,
                                device.address(p->buffer, slot), p->bytes);
  return Status::internal("this instruction does not communicate");
}

} // namespace autopar::runtime
