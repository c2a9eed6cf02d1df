// SPDX-License-Identifier: Apache-2.0
// A rank's device: it holds the arenas and runs every instruction that is not communication. docs/
// AddingADevice.md walks through a new one.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/BufferPlaces.h"
#include "autopar/Runtime/Communicator.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace autopar::runtime {

class KernelLibrary;
namespace cuda {
class CudaStreams;
}

/// Copies between a device's memory and host memory that both reach, for communicators that only
/// read and write the latter.
class Staging {
public:
  virtual ~Staging() = default;
  /// Host memory for staging; it is the device's and goes with it.
  virtual Result<void *> allocate(int64_t bytes) = 0;
  /// Starts a copy; the token is the device's.
  virtual Result<Token> toHost(void *host, const void *device, int64_t bytes) = 0;
  virtual Result<Token> toDevice(void *device, const void *host, int64_t bytes) = 0;
};

/// Records instructions that are then given to the device as one, again and again.
class Capture {
public:
  virtual ~Capture() = default;
  /// What is issued until end() is recorded and does not run. Its tokens are only good for what is
  /// issued after it.
  virtual Status begin() = 0;
  static constexpr int32_t kMostMarks = 8; ///< of a queue
  /// When what `after` says has run, reached() says `number` of the queue, from 1 to kMostMarks.
  virtual Status mark(artifact::Queue queue, int32_t number, std::span<const Token> after) = 0;
  /// The number of the graph that was recorded.
  virtual Result<int32_t> end() = 0;
  /// Ends a recording that failed, in the thread that began it; nothing where none runs.
  virtual void abandon() = 0;
  /// Runs a graph. One at a time.
  virtual Result<Token> launch(int32_t graph) = 0;
  /// The last mark that the last graph came to on a queue, 0 before the first; valid even after it
  /// failed.
  virtual int32_t reached(artifact::Queue queue) const = 0;
};

/// All calls of one device come from one thread at a time, the one that drives its rank.
class Device {
public:
  virtual ~Device() = default;

  /// Takes the program (which outlives the device), allocates its arenas, zeroed and as large as
  /// `places` says, and creates whatever the instructions need (primitives, kernel handles).
  /// `rankValues` are those of the rank's table. NoDevice or Mismatch when this machine cannot run
  /// it; the message names the entry and instruction.
  virtual Status prepare(const artifact::Program &program, BufferPlaces places,
                         std::span<const int64_t> rankValues) = 0;
  /// The same with all buffers as planned.
  Status prepare(const artifact::Program &program, std::span<const int64_t> rankValues = {}) {
    return prepare(program, BufferPlaces(program), rankValues);
  }

  /// In words the layout that a Pack of the program writes: two that write the same write the same
  /// bytes. Empty where it cannot be told. Before prepare() too.
  virtual std::string packedLayout(const artifact::Program &program,
                                   const artifact::Pack &pack) const {
    (void)program, (void)pack;
    return "";
  }

  /// Where the arena of the device's memory begins; null where there is none.
  virtual void *arena() { return nullptr; }
  /// Address of a buffer for a slot. Valid until the device is destroyed.
  virtual void *address(int32_t buffer, int32_t slot) = 0;

  /// Whether instructions are given to the device before what they wait for is complete: it then
  /// runs those of one queue in order, and each after the tokens it is issued with.
  virtual bool ordersInstructions() const { return false; }

  /// Starts an instruction; its dependencies are complete but for `after`, which is empty where the
  /// device does not order instructions. Never blocks on another rank. Token 0 says that it is
  /// complete already.
  virtual Result<Token> issue(const artifact::Instruction &instruction, int32_t slot,
                              std::span<const Token> after) = 0;
  /// True when complete; the token is then forgotten.
  virtual Result<bool> test(Token token) = 0;

  /// Host access to a buffer's bytes, for ports, control words and tests; `offset` counts from slot
  /// 0. Called while nothing that touches the buffer is running; complete when it returns.
  virtual Status write(int32_t buffer, int64_t offset, const void *data, int64_t bytes) = 0;
  virtual Status read(int32_t buffer, int64_t offset, void *data, int64_t bytes) = 0;

  /// Address of a buffer (slot 0) that the host may read between steps, or null when the device's
  /// memory is its own. Spares a copy of large outputs.
  virtual const void *hostAddress(int32_t buffer) {
    (void)buffer;
    return nullptr;
  }

  /// Where the host cannot read the device's memory: how it is reached. Null where it can.
  virtual Staging *staging() { return nullptr; }

  /// "GPU 0 (NVIDIA H200)", for messages; empty where there is nothing to tell.
  virtual std::string text() const { return ""; }
  /// What tells this device from all others of a job; empty where nothing does.
  virtual std::string identity() const { return ""; }
  /// The streams of a CUDA device, for libraries that give them work of their own; else null.
  virtual cuda::CudaStreams *cudaStreams() { return nullptr; }

  /// From now on instructions are timed by the device's clock, where it has one of its own.
  virtual void timeInstructions(bool enabled) { (void)enabled; }
  /// How long the instruction ran that test() last said is complete; nothing where the device does
  /// not time them.
  virtual std::optional<int64_t> lastDurationNs() const { return std::nullopt; }

  /// Where instructions can be recorded: how. Null where they cannot.
  virtual Capture *capture() { return nullptr; }

  /// Bytes allocated beyond the plan because this machine's library asked for more scratch or
  /// larger packed weights than the machine that compiled; 0 as a rule.
  virtual int64_t unplannedBytes() const = 0;
};

/// The CPU: instructions run on the calling thread and `threads - 1` more. `kernels` may be null
/// when the program launches none.
std::unique_ptr<Device> createCpuDevice(std::shared_ptr<const KernelLibrary> kernels,
                                        int32_t threads);

} // namespace autopar::runtime
