// SPDX-License-Identifier: Apache-2.0
// Messages over MPI. A plugin (libautopar_mpi.so), built where MPI is found and opened only under
// mpirun, so that autopar-run itself needs no MPI.
#include "autopar/Runtime/Rendezvous.h"
#include "autopar/Runtime/Transport.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace autopar::runtime {
namespace {

/// MPI counts are int.
constexpr size_t kMaxPiece = size_t{1} << 30;

class MpiTransport : public Transport {
public:
  ~MpiTransport() override {
    if (abortCode != 0)
      endJob();
    if (hasInitialized)
      MPI_Finalize();
  }

  Status start(const TransportOptions &options) {
    int provided = 0, given = 0;
    MPI_Initialized(&given);
    if (!given) {
      if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return {StatusCode::NoDevice, "MPI cannot be initialized"};
      hasInitialized = true;
      if (provided < MPI_THREAD_SERIALIZED)
        return {StatusCode::NoDevice,
                "this MPI does not support calls from several threads (MPI_THREAD_SERIALIZED)"};
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &ownRank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *bound = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    if (found)
      tagBound = uint64_t(*static_cast<int *>(bound));
    if (ownRank != options.rank || size != options.worldSize)
      return Status::mismatch("the launcher says rank " + std::to_string(options.rank) + " of " +
                              std::to_string(options.worldSize) + ", MPI says " +
                              std::to_string(ownRank) + " of " + std::to_string(size) +
                              "; was the plugin built with another MPI than mpirun's?");
    return Status::ok();
  }

  int32_t rank() const override { return ownRank; }
  int32_t worldSize() const override { return size; }

  Result<MessageId> send(int32_t peer, uint64_t tag, const void *data, size_t bytes) override {
    return post(bytes, [&](size_t at, int count, MPI_Request *request) {
      return MPI_Isend(static_cast<const char *>(data) + at, count, MPI_BYTE, peer, fold(tag),
                       MPI_COMM_WORLD, request);
    });
  }
  Result<MessageId> receive(int32_t peer, uint64_t tag, void *data, size_t bytes) override {
    return post(bytes, [&](size_t at, int count, MPI_Request *request) {
      return MPI_Irecv(static_cast<char *>(data) + at, count, MPI_BYTE, peer, fold(tag),
                       MPI_COMM_WORLD, request);
    });
  }

  Result<bool> test(MessageId id) override {
    auto found = messages.find(id);
    if (found == messages.end())
      return Status::internal("unknown message");
    int done = 0;
    std::vector<MPI_Request> &requests = found->second;
    if (MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE) !=
        MPI_SUCCESS)
      return Status::peerLost("MPI reports a failed message on rank " + std::to_string(ownRank));
    if (!done)
      return false;
    messages.erase(found);
    return true;
  }

  /// MPI only moves when it is called, so waiting is short: others may need the core.
  void wait(std::chrono::microseconds) override { std::this_thread::yield(); }

  void abort(const Status &reason) override {
    std::lock_guard lock(mutex);
    if (abortCode != 0)
      return;
    abortCode = reason.isOk() ? 1 : reason.exitCode();
    why = reason.message();
    if (rendezvous)
      rendezvous->fail(reason);
  }
  void setRendezvous(Rendezvous &told) override { rendezvous = &told; }

private:
  int ownRank = 0, size = 1;
  uint64_t tagBound = 32767;
  bool hasInitialized = false;
  std::mutex mutex;
  std::atomic<int> abortCode = 0;
  std::string why;
  Rendezvous *rendezvous = nullptr;
  std::unordered_map<MessageId, std::vector<MPI_Request>> messages;
  MessageId next = 1;

  /// mpirun ends all ranks when one ends without MPI_Finalize. MPI_Abort would have it do so too,
  /// but waits for answers, which do not come where a link is down. Nobody speaks after this.
  [[noreturn]] void endJob() {
    std::fprintf(stderr, "[rank %d] %s: %s\n", ownRank, program_invocation_short_name, why.c_str());
    std::fflush(nullptr);
    _exit(abortCode);
  }

  /// MPI tags are small. Messages of one pair are matched in the order of posting anyway, so a
  /// clash is harmless as long as both ranks post in one order, which they do.
  int fold(uint64_t tag) const { return int((tag ^ tag >> 29) % tagBound); }

  template <typename Post>
  Result<MessageId> post(size_t bytes, Post postPiece) {
    std::vector<MPI_Request> requests;
    for (size_t at = 0; at < bytes; at += kMaxPiece) {
      requests.emplace_back();
      if (postPiece(at, int(std::min(kMaxPiece, bytes - at)), &requests.back()) != MPI_SUCCESS)
        return Status::peerLost("MPI cannot post a message on rank " + std::to_string(ownRank));
    }
    messages.emplace(next, std::move(requests));
    return next++;
  }
};

} // namespace
} // namespace autopar::runtime

extern "C" autopar::runtime::Transport *
autoparCreateTransport(const autopar::runtime::TransportOptions *options, autopar::Status *status) {
  auto transport = std::make_unique<autopar::runtime::MpiTransport>();
  *status = transport->start(*options);
  return status->isOk() ? transport.release() : nullptr;
}
