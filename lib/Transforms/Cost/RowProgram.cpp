// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "RowProgram.h"

using namespace mlir;
using namespace mlir::autopar;

RowProgram::RowProgram(const std::vector<char> &isAlone, size_t ports) : isAlone(isAlone) {
  program.ports = ports;
  for (size_t mesh = 0; mesh < isAlone.size(); ++mesh)
    addQueue("mesh " + Twine(mesh));
}

int32_t RowProgram::addQueue(const Twine &name) {
  program.queues.push_back(name.str());
  return static_cast<int32_t>(program.queues.size()) - 1;
}

int32_t RowProgram::addTask(int32_t queue, double us, const Twine &name) {
  ::autopar::VirtualTask task;
  task.name = name.str();
  task.queues = {queue};
  task.durationUs = us;
  program.tasks.push_back(std::move(task));
  return static_cast<int32_t>(program.tasks.size()) - 1;
}

int32_t RowProgram::send(int32_t from, int32_t to, const MeshMessage &message,
                         ArrayRef<int32_t> after, const Twine &name) {
  auto [link, isNew] = links.try_emplace({from, to});
  if (isNew)
    link->second = addQueue("from " + Twine(from) + " to " + Twine(to));
  int32_t bytes = addTask(link->second, 0, name);
  program.tasks[bytes].after.assign(after.begin(), after.end());
  if (isAlone[to] && !message.spansNodes)
    return bytes;
  message.take(program.tasks[bytes]);
  for (int32_t mesh : {from, to})
    if (double us = message.lossUs(mesh == to); us > 0 && isAlone[mesh])
      program.tasks[bytes].interrupts.push_back({mesh, us});
  // The next message does not wait for the latency of this one.
  int32_t arrival = addTask(addQueue("latency"), message.each.latencyUs, name);
  program.tasks[arrival].after.push_back(bytes);
  return arrival;
}

void RowProgram::receive(int32_t task, int32_t arrival, int32_t mesh, const MeshMessage &message,
                         bool isFirst) {
  if (isFirst && isAlone[mesh] && !message.spansNodes) // what computes also takes what arrives
    program.tasks[task].durationUs += message.receivingUs();
  program.tasks[task].after.push_back(arrival);
}

void RowProgram::carry(const Message &sent, int32_t to, const MeshMessage &message,
                       const Twine &name) {
  ArrayRef<int32_t> after = sent.after >= 0 ? ArrayRef(sent.after) : ArrayRef<int32_t>();
  int32_t arrival = send(sent.from, to, message, after, name);
  for (auto [number, reader] : llvm::enumerate(readers[sent.sent]))
    receive(reader, arrival, to, message, /*isFirst=*/number == 0);
}
