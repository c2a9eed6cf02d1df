// SPDX-License-Identifier: Apache-2.0
// The C interface: each call forwards to Session and keeps the message of a failure per thread.
#include "autopar/Runtime/CApi.h"

#include "VaryingExtents.h"

#include "autopar/Artifact/Verify.h"
#include "autopar/Runtime/Checkpoint.h"
#include "autopar/Runtime/Launch.h"
#include "autopar/Runtime/Session.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <numeric>

using namespace autopar;

struct AutoParSession {
  std::unique_ptr<runtime::Session> session;
  /// The number of the next step; common to sessions that share their state.
  std::shared_ptr<int64_t> nextStep = std::make_shared<int64_t>(0);
  std::string remarks = {}; ///< of the initializer
};

struct AutoParWorld {
  runtime::LaunchedRank launch;
  std::shared_ptr<runtime::World> connections;
};

namespace {

thread_local std::string lastError;

int32_t report(const Status &status) {
  lastError = status.isOk() ? "" : status.message();
  return status.exitCode();
}

/// Nothing throws on purpose, but memory may run out, and exceptions must not cross into C.
template <typename Body>
int32_t guarded(Body body) {
  try {
    return report(body());
  } catch (const std::exception &error) {
    return report(Status::internal(error.what()));
  }
}

Status describeTensor(const std::vector<runtime::TensorSpec> &tensors, int32_t index,
                      AutoParTensor *tensor) {
  if (index < 0 || size_t(index) >= tensors.size() || !tensor)
    return Status::badInput("there is no tensor " + std::to_string(index) + ", the program has " +
                            std::to_string(tensors.size()));
  const runtime::TensorSpec &spec = tensors[size_t(index)];
  *tensor = {spec.name.c_str(), int32_t(spec.dtype), int32_t(spec.shape.size()), spec.shape.data(),
             spec.bytes};
  return Status::ok();
}

Status checkTensor(const char *name, int32_t dtype, int32_t rank, const int64_t *shape,
                   const void *data) {
  if (!name || !data || rank < 0 || (rank > 0 && !shape) || dtype < 0 ||
      dtype > int32_t(kLastDataType))
    return Status::badInput(
        "name, shape and data must not be null, and the element type must be 0 to " +
        std::to_string(int(kLastDataType)));
  return Status::ok();
}

Status checkRoom(const std::string &tensor, int64_t has, int64_t bytes) {
  return has == bytes ? Status::ok()
                      : Status::badInput(tensor + " has " + std::to_string(has) +
                                         " bytes, there is room for " + std::to_string(bytes));
}

const runtime::TensorSpec *named(const std::vector<runtime::TensorSpec> &tensors,
                                 const char *name) {
  auto found = std::find_if(tensors.begin(), tensors.end(),
                            [&](const auto &spec) { return spec.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

/// Copies as many numbers as the tensor has dimensions.
Status copyShape(const std::vector<runtime::TensorSpec> &tensors, int32_t index, int64_t *out,
                 const std::function<std::vector<int64_t>(const runtime::TensorSpec &)> &shapeOf) {
  if (!out || index < 0 || size_t(index) >= tensors.size())
    return Status::badInput("there is no tensor " + std::to_string(index) + ", or no room");
  std::vector<int64_t> shape = shapeOf(tensors[size_t(index)]);
  std::copy(shape.begin(), shape.end(), out);
  return Status::ok();
}

/// Whether there is a state, and it is that of the session beside.
bool sharesState(const runtime::Session &session) {
  return !session.states().empty() &&
         std::all_of(session.states().begin(), session.states().end(),
                     [&](const auto &state) { return session.sharesState(state.name); });
}

void takeRemarks(AutoParSession &session) {
  session.remarks.clear();
  for (const std::string &remark : session.session->initializerRemarks())
    session.remarks += (session.remarks.empty() ? "" : "\n") + remark;
}

/// A session of this process's rank.
void enter(const AutoParWorld &world, runtime::SessionOptions &options) {
  options.ranksHere = world.launch.ranksHere;
  options.localRank = world.launch.localRank;
  options.transport = runtime::shareTransport(world.connections);
  if (runtime::Rendezvous *rendezvous = world.connections->rendezvous.get())
    options.verdict = [rendezvous] { return rendezvous->verdict(); };
}

/// Checkpoints and exports are of what lasts from step to step.
Status checkTrains(const AutoParSession &session, const char *path) {
  if (!path || !*path)
    return Status::badInput("the path must not be empty");
  return session.session->states().empty()
             ? Status::badInput("this program keeps nothing from step to step, so there is nothing "
                                "to checkpoint or export; compile it for training")
             : Status::ok();
}

} // namespace

int32_t autoparApiVersion(void) { return 8; }

int32_t autoparOpen(const char *path, int32_t threads, const char *initializer,
                    AutoParSession **session) {
  AutoParOptions options = {threads, initializer, nullptr, nullptr};
  return autoparOpenWith(path, &options, session);
}

int32_t autoparOpenWith(const char *path, const AutoParOptions *given, AutoParSession **session) {
  return guarded([&]() -> Status {
    if (!path || !session)
      return Status::badInput("path and session must not be null");
    if (!given)
      return Status::badInput("options must not be null; all of them may be 0");
    *session = nullptr;
    runtime::SessionOptions options;
    options.threads = given->threads;
    options.beside = given->beside ? given->beside->session.get() : nullptr;
    if (given->initializer && *given->initializer) {
      auto parsed = runtime::Initializer::parse(given->initializer);
      if (!parsed)
        return parsed.status();
      options.initializer = *parsed;
    }
    if (given->world && given->world->connections->transport)
      enter(*given->world, options);
    auto opened = runtime::Session::open(std::string(path), std::move(options));
    if (!opened)
      return opened.status();
    *session = new AutoParSession{opened.take()};
    if (given->beside && sharesState(*(*session)->session))
      (*session)->nextStep = given->beside->nextStep;
    takeRemarks(**session);
    return Status::ok();
  });
}

int32_t autoparJoin(AutoParWorld **world) {
  return guarded([&]() -> Status {
    if (!world)
      return Status::badInput("world must not be null");
    *world = nullptr;
    auto launch = runtime::detectLaunch({});
    if (!launch)
      return launch.status();
    auto joined = runtime::joinWorld(*launch, {});
    if (!joined)
      return joined.status();
    *world = new AutoParWorld{*launch, std::make_shared<runtime::World>(joined.take())};
    return Status::ok();
  });
}

int32_t autoparRank(const AutoParWorld *world) { return world->launch.rank; }
int32_t autoparProcesses(const AutoParWorld *world) { return world->launch.worldSize; }

void autoparLeave(AutoParWorld *world, const char *why) {
  if (world && why && *why)
    world->connections->fail(Status::badInput(why));
  delete world;
}

int32_t autoparBroadcast(AutoParSession *session, void *data, int64_t bytes) {
  return guarded([&]() -> Status {
    if (!data || bytes < 0)
      return Status::badInput("data must not be null and bytes not negative");
    auto *begin = static_cast<char *>(data);
    auto text = session->session->broadcastText({begin, begin + bytes});
    if (!text)
      return text.status();
    if (int64_t(text->size()) != bytes)
      return Status::badInput("process 0 gives " + std::to_string(text->size()) +
                              " bytes, this one expects " + std::to_string(bytes));
    std::memcpy(data, text->data(), size_t(bytes));
    return Status::ok();
  });
}

int32_t autoparLoadWeights(AutoParSession *session, const char *initializer) {
  return guarded([&]() -> Status {
    auto parsed = runtime::Initializer::parse(initializer ? initializer : "");
    if (!parsed)
      return parsed.status();
    AUTOPAR_RETURN_IF_ERROR(session->session->loadWeights(parsed.take()));
    takeRemarks(*session);
    return Status::ok();
  });
}

int64_t autoparOwnBytes(const AutoParSession *session) {
  int64_t bytes = 0;
  for (const runtime::RankMemory &memory : session->session->memory())
    bytes += std::accumulate(std::begin(memory.arenaBytes), std::end(memory.arenaBytes),
                             memory.unplannedBytes);
  return bytes;
}

int64_t autoparSharedBytes(const AutoParSession *session) {
  int64_t bytes = 0;
  for (const runtime::RankMemory &memory : session->session->memory())
    bytes += memory.sharedBytes;
  return bytes;
}

int32_t autoparSharesState(const AutoParSession *session, const char *name) {
  return name && session->session->sharesState(name);
}

void autoparClose(AutoParSession *session) { delete session; }

const char *autoparRemarks(const AutoParSession *session) { return session->remarks.c_str(); }

const char *autoparLastError(void) { return lastError.c_str(); }

int32_t autoparWorldSize(const AutoParSession *session) {
  return session->session->reader().worldSize();
}
int32_t autoparInputCount(const AutoParSession *session) {
  return int32_t(session->session->inputs().size());
}
int32_t autoparOutputCount(const AutoParSession *session) {
  return int32_t(session->session->outputs().size());
}

int32_t autoparInput(const AutoParSession *session, int32_t index, AutoParTensor *tensor) {
  return guarded([&] { return describeTensor(session->session->inputs(), index, tensor); });
}
int32_t autoparOutput(const AutoParSession *session, int32_t index, AutoParTensor *tensor) {
  return guarded([&] { return describeTensor(session->session->outputs(), index, tensor); });
}

int32_t autoparInputLeast(const AutoParSession *session, int32_t index, int64_t *least) {
  return guarded(
      [&] { return copyShape(session->session->inputs(), index, least, runtime::leastShape); });
}

int32_t autoparInputStep(const AutoParSession *session, int32_t index, int64_t *step) {
  return guarded(
      [&] { return copyShape(session->session->inputs(), index, step, runtime::stepShape); });
}

int32_t autoparOutputShape(const AutoParSession *session, int32_t index, int64_t *shape) {
  return guarded([&] {
    return copyShape(
        session->session->outputs(), index, shape,
        [&](const runtime::TensorSpec &spec) { return session->session->outputShape(spec); });
  });
}

int32_t autoparSetInput(AutoParSession *session, const char *name, int32_t dtype, int32_t rank,
                        const int64_t *shape, const void *data) {
  return guarded([&]() -> Status {
    AUTOPAR_RETURN_IF_ERROR(checkTensor(name, dtype, rank, shape, data));
    return session->session->setInput(name, DataType(dtype),
                                      std::vector<int64_t>(shape, shape + rank), data);
  });
}

int32_t autoparRun(AutoParSession *session, int64_t steps) {
  return guarded([&]() -> Status {
    if (steps < 1)
      return Status::badInput("steps must be at least 1");
    // One by one: those in front of one that fails are done.
    for (int64_t i = 0; i < steps; ++i, ++*session->nextStep)
      AUTOPAR_RETURN_IF_ERROR(session->session->run(*session->nextStep, 1));
    return session->session->collectOutputs();
  });
}

void autoparSkipNonFinite(AutoParSession *session, int32_t skips) {
  session->session->setSkipNonFinite(skips != 0);
}

int32_t autoparEvaluatedCount(const AutoParSession *session) {
  return int32_t(session->session->evaluated().size());
}

const char *autoparEvaluated(const AutoParSession *session, int32_t index) {
  const std::vector<std::string> &names = session->session->evaluated();
  return index < 0 || size_t(index) >= names.size() ? nullptr : names[size_t(index)].c_str();
}

int32_t autoparEvaluate(AutoParSession *session, double *values) {
  return guarded([&]() -> Status {
    if (!values)
      return Status::badInput("values must not be null");
    auto given = session->session->evaluate(*session->nextStep);
    if (given)
      std::copy(given->begin(), given->end(), values);
    return given.status();
  });
}

int32_t autoparSetLearningRate(AutoParSession *session, double rate) {
  return guarded([&] { return session->session->setLearningRate(rate); });
}

int32_t autoparSaveCheckpoint(AutoParSession *session, const char *folder) {
  return guarded([&]() -> Status {
    AUTOPAR_RETURN_IF_ERROR(checkTrains(*session, folder));
    return runtime::saveCheckpoint(*session->session, folder, {*session->nextStep, {}});
  });
}

int32_t autoparLoadCheckpoint(AutoParSession *session, const char *folder, int64_t *step) {
  return guarded([&]() -> Status {
    if (!step)
      return Status::badInput("step must not be null");
    AUTOPAR_RETURN_IF_ERROR(checkTrains(*session, folder));
    auto loaded = runtime::loadNewestCheckpoint(*session->session, folder);
    if (!loaded)
      return loaded.status();
    if (*loaded)
      *session->nextStep = (*loaded)->info.step;
    *step = *loaded ? *session->nextStep : -1;
    return Status::ok();
  });
}

static int32_t exportValues(AutoParSession *session, const char *path, runtime::Exported what) {
  return guarded([&]() -> Status {
    AUTOPAR_RETURN_IF_ERROR(checkTrains(*session, path));
    return runtime::exportSafetensors(*session->session, path, what);
  });
}

int32_t autoparExport(AutoParSession *session, const char *path) {
  return exportValues(session, path, runtime::Exported::Parameters);
}

int32_t autoparExportAverages(AutoParSession *session, const char *path) {
  return exportValues(session, path, runtime::Exported::Averages);
}

int32_t autoparGetOutput(const AutoParSession *session, const char *name, void *data,
                         int64_t bytes) {
  return guarded([&]() -> Status {
    if (!name || (bytes > 0 && !data))
      return Status::badInput("name and data must not be null");
    auto source = session->session->output(name);
    if (!source)
      return source.status();
    if (const runtime::TensorSpec *spec = named(session->session->outputs(), name))
      AUTOPAR_RETURN_IF_ERROR(checkRoom(
          std::string("output ") + name,
          artifact::checkedBytes(session->session->outputShape(*spec), spec->dtype).value_or(0),
          bytes));
    std::memcpy(data, *source, size_t(bytes));
    return Status::ok();
  });
}

int32_t autoparStateCount(const AutoParSession *session) {
  return int32_t(session->session->states().size());
}
int32_t autoparState(const AutoParSession *session, int32_t index, AutoParTensor *tensor) {
  return guarded([&] { return describeTensor(session->session->states(), index, tensor); });
}

int32_t autoparGetState(AutoParSession *session, const char *name, void *data, int64_t bytes) {
  return guarded([&]() -> Status {
    if (!name || (bytes > 0 && !data))
      return Status::badInput("name and data must not be null");
    if (const runtime::TensorSpec *spec = named(session->session->states(), name))
      AUTOPAR_RETURN_IF_ERROR(checkRoom(std::string("state ") + name, spec->bytes, bytes));
    return session->session->readState(name, data);
  });
}

int32_t autoparSetState(AutoParSession *session, const char *name, int32_t dtype, int32_t rank,
                        const int64_t *shape, const void *data) {
  return guarded([&]() -> Status {
    AUTOPAR_RETURN_IF_ERROR(checkTensor(name, dtype, rank, shape, data));
    return session->session->setState(name, DataType(dtype),
                                      std::vector<int64_t>(shape, shape + rank), data);
  });
}
