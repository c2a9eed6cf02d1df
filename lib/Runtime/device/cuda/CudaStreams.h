// SPDX-License-Identifier: Apache-2.0
// The streams of a rank on its GPU, one per queue, one for the host and those that libraries ask
// for; events as tokens; and the capture of what is given to them as CUDA graphs.
#pragma once

#include "Gpu.h"
#include "autopar/Artifact/Program.h"
#include "autopar/Runtime/Device.h"

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace autopar::runtime::cuda {

class CudaStreams : public Capture {
public:
  explicit CudaStreams(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)), calls(this->gpu->calls()) {}
  ~CudaStreams() override;

  /// Waits until all that was given to the streams has run or failed, and drops the graphs.
  void finish();
  /// Drops the graphs without waiting, and a capture. What still runs is freed when it ends.
  void dropGraphs();

  Result<Stream> of(artifact::Queue queue) { return at(size_t(queue)); }
  Result<Stream> ofHost() { return at(artifact::kQueueCount); }
  /// A queue's stream, whose next work comes after all of the tokens.
  Result<Stream> behind(artifact::Queue queue, std::span<const Token> after) {
    return behind(size_t(queue), after);
  }
  /// The number of a stream more.
  size_t add();
  Result<Stream> behind(size_t index, std::span<const Token> after);
  /// Completion of what was given to the stream so far.
  Result<Token> record(Stream stream);
  /// While enabled, what a stream is given between startClock() and record() is timed.
  void timeInstructions(bool enabled) { isTiming = enabled; }
  Status startClock(Stream stream);
  /// Of what test() last said is complete, if it was timed.
  std::optional<int64_t> lastDurationNs() const { return duration; }
  Result<bool> test(Token token);
  bool isCapturing() const { return captures; }
  const std::shared_ptr<Gpu> &onGpu() const { return gpu; }

  Status begin() override;
  Status mark(artifact::Queue queue, int32_t number, std::span<const Token> after) override;
  Result<int32_t> end() override;
  void abandon() override;
  Result<Token> launch(int32_t graph) override;
  int32_t reached(artifact::Queue queue) const override {
    return marks ? static_cast<volatile int32_t *>(marks)[size_t(queue)] : 0;
  }

private:
  static constexpr artifact::Queue kOrigin = artifact::Queue::Compute; ///< where captures begin

  std::shared_ptr<Gpu> gpu;
  const DriverCalls &calls;
  std::vector<Stream> streams =
      std::vector<Stream>(artifact::kQueueCount + 1); ///< queues, the host, added ones
  /// What a token stands for, and where: work on a stream comes after all that it was given before.
  struct Recorded {
    Event event;
    Stream stream;
  };
  std::unordered_map<Token, Recorded> events;
  std::vector<Event> freeEvents;
  bool isTiming = false;
  Event clockStart = nullptr; ///< of what the next token stands for
  std::unordered_map<Token, Event> starts;
  std::vector<Event> freeClocks; ///< events that tell when they were passed
  std::optional<int64_t> duration;
  Token lastToken = 0;
  std::vector<GraphExec> graphs;
  int32_t *marks = nullptr;  ///< per queue; pinned memory, which outlives a GPU's failure
  DevicePointer numbers = 0; ///< 0 to kMostMarks, which are copied there
  size_t firstOfMarks = 0;   ///< of the streams that copy them, one per queue

  bool captures = false;
  Token forked = 0;               ///< what a stream waits for when it joins the capture
  std::vector<uint8_t> hasJoined; ///< per stream
  std::vector<Token> captured;

  Result<Stream> at(size_t index);
  /// What is issued from here on comes after everything that was issued since begin().
  Status join();
  Result<Event> freeEvent(std::vector<Event> &from, unsigned flags);
  Status readClock(Token token, Event end);
  Status wait(Stream stream, Token token);
  Status createMarks();
  DriverError endCapture(Graph &graph);
};

} // namespace autopar::runtime::cuda
