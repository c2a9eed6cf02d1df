// SPDX-License-Identifier: Apache-2.0
// NCCL's C functions, for emulated GPUs. Strict: communicators are nonblocking, calls go on in the
// background and reach their stream some polls later, a send ends when it is received, all members
// must ask for the same, a communicator has one stream, and no two ranks share a GPU. One ends when
// no graph has its operations, nothing runs on its GPU and, but for an abort, all members have
// done with it; where that never comes, the process dies. Sums run in another order than ranks
// have.
#include "Nccl.h"

#include "../../lib/Runtime/comm/nccl/NcclCalls.h"
#include "Emulation.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

using namespace autopar::runtime::cuda;
using namespace emulated;

namespace {

enum class Kind : int { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Receive };

/// One operation of a communicator, as its members must agree on it.
struct Request {
  Kind kind;
  uint64_t count = 0;
  int type = 0, operation = 0, peer = -1; ///< peer: also the root
  const void *input = nullptr;
  void *output = nullptr;
};
struct Header {
  int kind, type, operation, peer;
  uint64_t count;
};

} // namespace

namespace autopar::runtime::cuda {

/// A rank's side of a communicator.
struct NcclRecord {
  std::string name;
  SharedFolder folder{""};
  int rank = 0, size = 0;
  int device = -1;
  Stream stream = nullptr;
  uint64_t collectives = 0;                          ///< that began on the stream
  std::map<std::pair<int, bool>, uint64_t> messages; ///< the same by peer and whether sent
  bool isConnected = false, isFinalizing = false;
  std::atomic<bool> isAborted{false};
  std::atomic<int> launches{0}; ///< that a stream or a graph still has
  NcclResult failure = NcclResult::Success;
  std::string words;
  /// What was asked for and is not on its stream yet, and after how many polls it will be.
  std::vector<Request> asked;
  int polls = 0;
};

} // namespace autopar::runtime::cuda

namespace {

std::mutex mutex;
std::set<NcclHandle> handles, gone; ///< work on streams may still look at those that are gone
std::mt19937 generator{7};
thread_local int groupDepth = 0;
thread_local NcclHandle groupHandle = nullptr;
thread_local Stream groupStream = nullptr;
thread_local std::vector<Request> grouped;

NcclResult refuse(NcclHandle comm, NcclResult result, const std::string &words) {
  complain("NCCL: " + words);
  if (comm)
    comm->words = words;
  return result;
}

std::string folderOf(const NcclUniqueId &id) {
  const char *root = std::getenv("AUTOPAR_EMULATED_NCCL_FOLDER");
  return std::string(root ? root : "/dev/shm") + "/" + id.bytes;
}

/// A launch of one or more operations of a communicator on a stream: they begin together.
class Launch {
public:
  Launch(NcclHandle comm, std::vector<Request> requests)
      : comm(comm), requests(std::move(requests)) {
    ++comm->launches;
  }
  ~Launch() { --comm->launches; }
  Launch(const Launch &) = delete;
  Launch &operator=(const Launch &) = delete;

  /// Puts in what this rank gives the first time, then says whether all others are there.
  bool isReady() {
    if (comm->isAborted)
      return true;
    if (!hasBegun)
      begin();
    for (size_t i = 0; i < requests.size(); ++i)
      for (const std::string &needed : awaited[i])
        if (!comm->folder.has(needed))
          return false;
    return true;
  }

  int run() {
    bool isGood = true;
    for (size_t i = 0; i < requests.size() && !comm->isAborted; ++i)
      isGood = isGood && finish(requests[i], i);
    hasBegun = false;
    return isGood ? 0 : int(DriverError::LaunchFailed);
  }

private:
  NcclHandle comm;
  std::vector<Request> requests;
  bool hasBegun = false;
  std::vector<std::vector<std::string>> awaited; ///< files, per request

  std::string collectiveFile(uint64_t number, int rank) const {
    return "c" + std::to_string(number) + "-" + std::to_string(rank);
  }
  uint64_t inputCount(const Request &r) const {
    return r.kind == Kind::ReduceScatter ? r.count * uint64_t(comm->size) : r.count;
  }

  void begin() {
    hasBegun = true;
    awaited.assign(requests.size(), {});
    for (size_t i = 0; i < requests.size(); ++i) {
      const Request &r = requests[i];
      Header header{int(r.kind), r.type, r.operation, r.peer, r.count};
      bool isMessage = r.kind == Kind::Send || r.kind == Kind::Receive;
      std::vector<uint8_t> bytes(sizeof(header));
      std::memcpy(bytes.data(), &header, sizeof(header));
      uint64_t size = r.kind == Kind::Receive ? 0 : inputCount(r) * bytesOfType(r.type);
      if (const uint8_t *from = deviceBytes(r.input, size); from && size)
        bytes.insert(bytes.end(), from, from + size);
      if (isMessage) {
        bool sends = r.kind == Kind::Send;
        uint64_t number = comm->messages[{r.peer, sends}]++;
        int from = sends ? comm->rank : r.peer, to = sends ? r.peer : comm->rank;
        std::string pair =
            std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number);
        comm->folder.put((sends ? "s" : "r") + pair, bytes.data(), bytes.size());
        awaited[i] = {(sends ? "r" : "s") + pair};
        continue;
      }
      uint64_t number = comm->collectives++;
      comm->folder.put(collectiveFile(number, comm->rank), bytes.data(), bytes.size());
      for (int member = 0; member < comm->size; ++member)
        awaited[i].push_back(collectiveFile(number, member));
      // Whoever is here has done with those before.
      if (number > 1)
        comm->folder.remove(collectiveFile(number - 2, comm->rank));
    }
  }

  bool disagree(const std::string &what) {
    complain("NCCL: " + comm->name + ", rank " + std::to_string(comm->rank) + ": " + what);
    return false;
  }

  bool finish(const Request &r, size_t index) {
    uint64_t element = bytesOfType(r.type);
    if (r.kind == Kind::Send || r.kind == Kind::Receive) {
      std::vector<uint8_t> other = comm->folder.get(awaited[index][0]);
      Header header;
      if (other.size() < sizeof(header))
        return disagree("a message is gone");
      std::memcpy(&header, other.data(), sizeof(header));
      if (header.count != r.count || header.type != r.type)
        return disagree("a message of " + std::to_string(header.count) + " elements of type " +
                        std::to_string(header.type) + " meets one of " + std::to_string(r.count) +
                        " of type " + std::to_string(r.type));
      comm->folder.remove(awaited[index][0]);
      if (r.kind == Kind::Send)
        return true;
      uint8_t *to = deviceBytes(r.output, r.count * element);
      if (!to || other.size() != sizeof(header) + r.count * element)
        return disagree("a message is received outside of what is allocated");
      std::memcpy(to, other.data() + sizeof(header), r.count * element);
      return true;
    }
    std::vector<std::vector<uint8_t>> all;
    for (const std::string &name : awaited[index]) {
      all.push_back(comm->folder.get(name));
      Header header;
      if (all.back().size() < sizeof(header))
        return disagree("what a member gave is gone");
      std::memcpy(&header, all.back().data(), sizeof(header));
      if (header.kind != int(r.kind) || header.count != r.count || header.type != r.type ||
          header.operation != r.operation || header.peer != r.peer)
        return disagree("members ask for different things");
      all.back().erase(all.back().begin(), all.back().begin() + sizeof(header));
      if (all.back().size() != inputCount(r) * element)
        return disagree("a member gives memory that is not allocated");
    }
    std::vector<uint8_t> result;
    if (r.kind == Kind::AllGather) {
      for (const auto &one : all)
        result.insert(result.end(), one.begin(), one.end());
    } else if (r.kind == Kind::Broadcast) {
      result = all[size_t(r.peer)];
    } else {
      result = all.back();
      for (size_t m = all.size() - 1; m-- > 0;)
        if (!reduceInto(result.data(), all[m].data(), inputCount(r), r.type, r.operation))
          return disagree("no such type or operation");
      if (r.kind == Kind::ReduceScatter) {
        auto own = result.begin() + int64_t(uint64_t(comm->rank) * r.count * element);
        result = std::vector<uint8_t>(own, own + int64_t(r.count * element));
      }
    }
    uint8_t *to = deviceBytes(r.output, result.size());
    if (!to)
      return disagree("a result lies outside of what is allocated");
    std::memcpy(to, result.data(), result.size());
    return true;
  }
};

/// Whether no member still has to say that it has done with the communicator.
bool haveAllDone(NcclHandle comm) {
  bool all = true;
  for (int rank = 0; rank < comm->size && comm->isFinalizing && !comm->isAborted; ++rank)
    all = all && comm->folder.has("done" + std::to_string(rank));
  return all;
}

/// As NCCL does before it frees what a communicator has: waits for graphs that hold its operations,
/// and, since freeing memory does, for all that runs on the GPU.
void awaitEnd(NcclHandle comm, const std::string &call) {
  const char *patience = std::getenv("AUTOPAR_EMULATED_NCCL_PATIENCE_MS");
  auto end = std::chrono::steady_clock::now() +
             std::chrono::milliseconds(patience ? std::atoi(patience) : 20000);
  while (true) {
    bool isIdle = finishWork(comm->device);
    bool isDone = haveAllDone(comm);
    if (isIdle && isDone && comm->launches == 0)
      return;
    if (std::chrono::steady_clock::now() > end) {
      complain("NCCL: " + call + " never returns: " +
               (!isDone  ? "other members have not done with the communicator"
                : isIdle ? "a CUDA graph has operations of the communicator"
                         : "operations of others wait on its GPU, and are not aborted"));
      std::abort();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

NcclResult endComm(NcclHandle comm, const std::string &call, bool aborts) {
  {
    std::lock_guard lock(mutex);
    if (!handles.count(comm))
      return refuse(nullptr, NcclResult::InvalidArgument, "no such communicator");
    if (aborts)
      comm->isAborted = true;
  }
  awaitEnd(comm, call);
  std::lock_guard lock(mutex);
  handles.erase(comm);
  gone.insert(comm);
  // The last one takes the folder with it.
  comm->folder.put("gone" + std::to_string(comm->rank), "", 0);
  bool isLast = true;
  for (int rank = 0; rank < comm->size; ++rank)
    isLast = isLast && comm->folder.has("gone" + std::to_string(rank));
  if (isLast)
    comm->folder.removeAll();
  return NcclResult::Success;
}

/// Remembers what was asked for; it reaches its stream later.
NcclResult ask(NcclHandle comm, Stream stream, std::vector<Request> requests) {
  std::lock_guard lock(mutex);
  if (!handles.count(comm))
    return refuse(nullptr, NcclResult::InvalidArgument, "no such communicator");
  if (!comm->isConnected || !comm->asked.empty())
    return refuse(comm, NcclResult::InvalidUsage, "a call while another one is in progress");
  if (comm->isAborted)
    return refuse(comm, NcclResult::InvalidUsage, "the communicator was aborted");
  if (comm->stream && comm->stream != stream)
    return refuse(comm, NcclResult::InvalidUsage, "a communicator is used on two streams");
  for (const Request &r : requests) {
    if (bytesOfType(r.type) == 0)
      return refuse(comm, NcclResult::InvalidArgument, "no such type");
    if (r.peer < -1 || r.peer >= comm->size)
      return refuse(comm, NcclResult::InvalidArgument, "no such peer");
  }
  comm->stream = stream;
  comm->asked = std::move(requests);
  comm->polls = int(generator() % 4);
  return NcclResult::InProgress;
}

NcclResult askOne(NcclHandle comm, Stream stream, const Request &request) {
  if (groupDepth == 0) {
    if (request.kind == Kind::Send || request.kind == Kind::Receive)
      if (const char *loading = std::getenv("CUDA_MODULE_LOADING");
          !loading || std::string(loading) != "EAGER")
        return refuse(comm, NcclResult::InvalidUsage,
                      "while a message waits no kernel can be loaded: CUDA_MODULE_LOADING=EAGER");
    return request.count == 0 ? NcclResult::Success : ask(comm, stream, {request});
  }
  if (groupHandle && (groupHandle != comm || groupStream != stream))
    return refuse(comm, NcclResult::InvalidUsage,
                  "groups of several communicators are not emulated");
  groupHandle = comm;
  groupStream = stream;
  if (request.count > 0)
    grouped.push_back(request);
  return NcclResult::Success;
}

} // namespace

#define EXPORTED extern "C" EMULATED_API NcclResult

EXPORTED ncclGetVersion(int *version) {
  *version = 22809;
  return NcclResult::Success;
}
EXPORTED ncclGetUniqueId(NcclUniqueId *id) {
  static std::random_device device;
  std::snprintf(id->bytes, sizeof(id->bytes), "autopar-nccl-%08x%08x", device(), device());
  SharedFolder(folderOf(*id)).create();
  return NcclResult::Success;
}
EXPORTED ncclCommInitRankConfig(NcclHandle *comm, int ranks, NcclUniqueId id, int rank,
                                NcclConfig *config) {
  std::lock_guard lock(mutex);
  *comm = nullptr;
  if (!config || config->magic != 0xcafebeef || config->blocking != 0)
    return refuse(nullptr, NcclResult::InvalidArgument, "only nonblocking communicators");
  if (config->size != (config->version < 21700 ? kNcclConfigBytes21400 : sizeof(NcclConfig)) ||
      (config->version >= 21700 && config->maxCtas != kNcclUndefined && config->maxCtas <= 0))
    return refuse(nullptr, NcclResult::InvalidArgument,
                  "a configuration is not what its version says");
  if (rank < 0 || rank >= ranks || currentDevice() < 0)
    return refuse(nullptr, NcclResult::InvalidArgument, "no such rank, or no GPU is selected");
  auto *made = new NcclRecord;
  made->name = id.bytes;
  made->folder = SharedFolder(folderOf(id));
  made->rank = rank;
  made->size = ranks;
  made->device = currentDevice();
  int words[] = {ranks, made->device};
  made->folder.put("here" + std::to_string(rank), words, sizeof(words));
  handles.insert(made);
  *comm = made;
  return NcclResult::InProgress;
}
EXPORTED ncclCommGetAsyncError(NcclHandle comm, NcclResult *state) {
  std::unique_lock lock(mutex);
  if (!handles.count(comm))
    return refuse(nullptr, NcclResult::InvalidArgument, "no such communicator");
  *state = comm->failure;
  if (comm->failure != NcclResult::Success)
    return NcclResult::Success;
  if (!comm->isConnected) {
    std::map<int, int> devices;
    *state = NcclResult::InProgress;
    for (int rank = 0; rank < comm->size; ++rank) {
      std::string name = "here" + std::to_string(rank);
      if (!comm->folder.has(name))
        return NcclResult::Success;
      std::vector<uint8_t> bytes = comm->folder.get(name);
      int words[2];
      std::memcpy(words, bytes.data(), sizeof(words));
      auto [other, isNew] = devices.emplace(words[1], rank);
      if (words[0] != comm->size || !isNew) {
        comm->failure = *state = NcclResult::InvalidUsage;
        (void)refuse(comm, NcclResult::InvalidUsage,
                     isNew ? "ranks disagree about their number"
                           : "Duplicate GPU detected : rank " + std::to_string(other->second) +
                                 " and rank " + std::to_string(rank));
        return NcclResult::Success;
      }
    }
    comm->isConnected = true;
  }
  if (!comm->asked.empty()) {
    *state = NcclResult::InProgress;
    if (comm->polls-- > 0)
      return NcclResult::Success;
    auto launch = std::make_shared<Launch>(comm, std::exchange(comm->asked, {}));
    lock.unlock();
    bool isQueued = enqueueWork(
        "collectives", comm->stream, [launch] { return launch->run(); },
        [launch] { return launch->isReady(); });
    if (!isQueued)
      comm->failure = NcclResult::UnhandledCudaError;
    *state = comm->failure;
    return NcclResult::Success;
  }
  *state = haveAllDone(comm) ? NcclResult::Success : NcclResult::InProgress;
  return NcclResult::Success;
}
EXPORTED ncclCommFinalize(NcclHandle comm) {
  std::lock_guard lock(mutex);
  if (!handles.count(comm))
    return refuse(nullptr, NcclResult::InvalidArgument, "no such communicator");
  comm->isFinalizing = true;
  comm->folder.put("done" + std::to_string(comm->rank), "", 0);
  return NcclResult::InProgress;
}
EXPORTED ncclCommDestroy(NcclHandle comm) { return endComm(comm, "ncclCommDestroy", false); }
EXPORTED ncclCommAbort(NcclHandle comm) { return endComm(comm, "ncclCommAbort", true); }
EXPORTED ncclGroupStart() {
  ++groupDepth;
  return NcclResult::Success;
}
EXPORTED ncclGroupEnd() {
  if (groupDepth == 0)
    return refuse(nullptr, NcclResult::InvalidUsage, "a group ends that did not start");
  if (--groupDepth > 0)
    return NcclResult::Success;
  NcclHandle comm = std::exchange(groupHandle, nullptr);
  std::vector<Request> requests = std::exchange(grouped, {});
  return requests.empty() ? NcclResult::Success : ask(comm, groupStream, std::move(requests));
}
EXPORTED ncclAllReduce(const void *input, void *output, size_t count, int type, int operation,
                       NcclHandle comm, Stream stream) {
  return askOne(comm, stream, {Kind::AllReduce, count, type, operation, -1, input, output});
}
EXPORTED ncclAllGather(const void *input, void *output, size_t count, int type, NcclHandle comm,
                       Stream stream) {
  return askOne(comm, stream, {Kind::AllGather, count, type, 0, -1, input, output});
}
EXPORTED ncclReduceScatter(const void *input, void *output, size_t count, int type, int operation,
                           NcclHandle comm, Stream stream) {
  return askOne(comm, stream, {Kind::ReduceScatter, count, type, operation, -1, input, output});
}
EXPORTED ncclBroadcast(const void *input, void *output, size_t count, int type, int root,
                       NcclHandle comm, Stream stream) {
  return askOne(comm, stream, {Kind::Broadcast, count, type, 0, root, input, output});
}
EXPORTED ncclSend(const void *data, size_t count, int type, int peer, NcclHandle comm,
                  Stream stream) {
  return askOne(comm, stream, {Kind::Send, count, type, 0, peer, data, nullptr});
}
EXPORTED ncclRecv(void *data, size_t count, int type, int peer, NcclHandle comm, Stream stream) {
  return askOne(comm, stream, {Kind::Receive, count, type, 0, peer, nullptr, data});
}
extern "C" EMULATED_API const char *ncclGetErrorString(NcclResult result) {
  switch (result) {
  case NcclResult::Success:
    return "no error";
  case NcclResult::UnhandledCudaError:
    return "unhandled cuda error";
  case NcclResult::InvalidArgument:
    return "invalid argument";
  case NcclResult::InvalidUsage:
    return "invalid usage";
  case NcclResult::RemoteError:
    return "remote process exited or there was a network error";
  case NcclResult::InProgress:
    return "NCCL operation in progress";
  default:
    return "internal error";
  }
}
extern "C" EMULATED_API const char *ncclGetLastError(NcclHandle comm) {
  return comm ? comm->words.c_str() : "";
}

// The functions are what the runtime declares.
#define EMULATED_SAME(name, symbol, parameters)                                                    \
  static_assert(std::is_same_v<decltype(&symbol), decltype(NcclCalls::name)>);
AUTOPAR_NCCL_CALLS(EMULATED_SAME)
