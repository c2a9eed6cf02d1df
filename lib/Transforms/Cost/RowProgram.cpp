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

void RowProgram::carry(const Message &sent, int32_t to, const MeshMessage &message,
                       const Twine &name) {
  auto [link, isNew] = links.try_emplace({sent.from, to});
  if (isNew)
    link->second = addQueue("from " + Twine(sent.from) + " to " + Twine(to));
  int32_t bytes = addTask(link->second, 0, name), arrival = bytes;
  if (sent.after >= 0)
    program.tasks[bytes].after.push_back(sent.after);
  ArrayRef<int32_t> read = readers[sent.sent];
  if (!isAlone[to] || message.spansNodes) {
    message.take(program.tasks[bytes]);
    for (int32_t mesh : {sent.from, to})
      if (double us = message.lossUs(mesh == to); us > 0 && isAlone[mesh])
        program.tasks[bytes].interrupts.push_back({mesh, us});
    // The next message does not wait for the latency of this one.
    arrival = addTask(addQueue("latency"), message.each.latencyUs, name);
    program.tasks[arrival].after.push_back(bytes);
  } else if (!read.empty()) { // what computes also takes what arrives
    program.tasks[read.front()].durationUs += message.receivingUs();
  }
  for (int32_t reader : read)
    program.tasks[reader].after.push_back(arrival);
}
