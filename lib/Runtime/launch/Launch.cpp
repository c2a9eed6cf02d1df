// SPDX-License-Identifier: Apache-2.0
// Launchers: their variables, and how ranks meet under each.
#include "autopar/Runtime/Launch.h"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <vector>

namespace autopar::runtime {
namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::optional<int32_t> number(const std::string &text) {
  char *end = nullptr;
  long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || value < 0 || value > 1 << 24)
    return std::nullopt;
  return int32_t(value);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(int64_t(seconds * 1000));
}

Status usage(const std::string &what) { return {StatusCode::Usage, what}; }

/// A rank as a launcher numbers it, whose variables say how many ranks are on its machine, and
/// which of them it is.
LaunchedRank numbered(int32_t rank, int32_t worldSize, const char *ranksHere,
                      const char *localRank) {
  LaunchedRank launch;
  launch.kind = LaunchedRank::Kind::Tcp;
  launch.rank = rank;
  launch.worldSize = worldSize;
  launch.ranksHere = number(variable(ranksHere)).value_or(0);
  launch.localRank = number(variable(localRank)).value_or(-1);
  return launch;
}

Status checkRank(const LaunchedRank &launch) {
  return launch.rank < launch.worldSize
             ? Status::ok()
             : usage("rank " + std::to_string(launch.rank) + " does not exist in a world of " +
                     std::to_string(launch.worldSize) + " ranks");
}

Status splitAddress(const std::string &text, LaunchedRank &launch) {
  size_t colon = text.rfind(':');
  auto port = colon == std::string::npos ? std::nullopt : number(text.substr(colon + 1));
  if (!port || *port == 0 || *port > 65535 || colon == 0)
    return usage("'" + text + "' is not HOST:PORT");
  launch.host = text.substr(0, colon);
  launch.port = uint16_t(*port);
  return Status::ok();
}

Result<LaunchedRank> fromFlags(const LaunchOptions &options) {
  LaunchedRank launch;
  if (options.rank < 0 || options.worldSize < 1)
    return usage("--rank and --world-size belong together");
  launch.rank = options.rank;
  launch.worldSize = options.worldSize;
  launch.localRank = number(variable("LOCAL_RANK")).value_or(-1);
  AUTOPAR_RETURN_IF_ERROR(checkRank(launch));
  const std::string scheme = "file://";
  if (!options.rendezvous.empty()) {
    if (options.rendezvous.rfind(scheme, 0) != 0 || options.rendezvous.size() == scheme.size())
      return usage("--rendezvous '" + options.rendezvous + "' is not file:///folder");
    launch.kind = LaunchedRank::Kind::File;
    launch.folder = options.rendezvous.substr(scheme.size());
    return launch;
  }
  std::string master = options.master;
  if (master.empty() && !variable("MASTER_ADDR").empty())
    master = variable("MASTER_ADDR") + ":" + variable("MASTER_PORT");
  if (master.empty())
    return usage("--rank needs --master HOST:PORT or --rendezvous file:///folder");
  launch.kind = LaunchedRank::Kind::Tcp;
  AUTOPAR_RETURN_IF_ERROR(splitAddress(master, launch));
  return launch;
}

Result<LaunchedRank> fromTorchrun() {
  auto rank = number(variable("RANK")), size = number(variable("WORLD_SIZE"));
  if (!rank || !size || *size < 1)
    return usage("RANK and WORLD_SIZE must both be numbers, they are '" + variable("RANK") +
                 "' and '" + variable("WORLD_SIZE") + "'");
  LaunchedRank launch = numbered(*rank, *size, "LOCAL_WORLD_SIZE", "LOCAL_RANK");
  AUTOPAR_RETURN_IF_ERROR(checkRank(launch));
  if (variable("MASTER_ADDR").empty() || variable("MASTER_PORT").empty())
    return usage(
        "RANK is set, but MASTER_ADDR and MASTER_PORT are not; they say where rank 0 listens");
  AUTOPAR_RETURN_IF_ERROR(
      splitAddress(variable("MASTER_ADDR") + ":" + variable("MASTER_PORT"), launch));
  // torchrun's own agent may hold MASTER_PORT for its store; the port beside it is ours then.
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True" && launch.port < 65535)
    ++launch.port;
  return launch;
}

/// "node[03-05,9],other" -> "node03".
std::string firstHost(const std::string &list) {
  size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || (comma != std::string::npos && comma < bracket))
    return list.substr(0, comma);
  size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

Result<LaunchedRank> fromSlurm() {
  auto rank = number(variable("SLURM_PROCID")), size = number(variable("SLURM_NTASKS"));
  if (!rank || !size)
    return LaunchedRank{};
  LaunchedRank launch = numbered(*rank, *size, "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID");
  AUTOPAR_RETURN_IF_ERROR(checkRank(launch));
  std::string nodes = variable("SLURM_STEP_NODELIST");
  if (nodes.empty())
    nodes = variable("SLURM_NODELIST");
  launch.host = variable("MASTER_ADDR").empty() ? firstHost(nodes) : variable("MASTER_ADDR");
  if (launch.host.empty())
    return usage("SLURM_PROCID is set, but neither SLURM_STEP_NODELIST nor MASTER_ADDR says where "
                 "rank 0 is");
  std::string port = variable("MASTER_PORT");
  if (port.empty()) // jobs that share a host take different ones
    port =
        std::to_string(20000 + std::strtoll(variable("SLURM_JOB_ID").c_str(), nullptr, 10) % 20000);
  AUTOPAR_RETURN_IF_ERROR(splitAddress(launch.host + ":" + port, launch));
  return launch;
}

/// mpiexec of MPIs whose library is not ours: it starts the ranks, they meet by themselves.
Result<LaunchedRank> fromPmi() {
  if (variable("MASTER_ADDR").empty() || variable("MASTER_PORT").empty())
    return usage("PMI_RANK is set (mpiexec of an MPI that is not Open MPI), but MASTER_ADDR and "
                 "MASTER_PORT are not; they say where rank 0 listens");
  LaunchedRank launch = numbered(*number(variable("PMI_RANK")), *number(variable("PMI_SIZE")),
                                 "MPI_LOCALNRANKS", "MPI_LOCALRANKID");
  AUTOPAR_RETURN_IF_ERROR(checkRank(launch));
  AUTOPAR_RETURN_IF_ERROR(
      splitAddress(variable("MASTER_ADDR") + ":" + variable("MASTER_PORT"), launch));
  return launch;
}

/// A line that rank 0 says to all.
Result<std::string> shareText(Transport &transport, std::string text,
                              std::chrono::milliseconds limit) {
  constexpr size_t kLongest = 4096;
  constexpr uint64_t kTag = 1;
  text.resize(kLongest);
  std::vector<MessageId> messages;
  bool isRoot = transport.rank() == 0;
  for (int32_t peer = 0; peer < (isRoot ? transport.worldSize() : 1); ++peer) {
    if (peer == transport.rank())
      continue;
    auto posted = isRoot ? transport.send(peer, kTag, text.data(), kLongest)
                         : transport.receive(peer, kTag, text.data(), kLongest);
    if (!posted)
      return posted.status();
    messages.push_back(*posted);
  }
  auto end = std::chrono::steady_clock::now() + limit;
  while (!messages.empty()) {
    auto done = transport.test(messages.back());
    if (!done)
      return done.status();
    if (*done)
      messages.pop_back();
    else if (std::chrono::steady_clock::now() > end)
      return Status::peerLost("ranks do not hear from each other when they begin");
    else
      transport.wait(std::chrono::milliseconds(1));
  }
  return std::string(text.c_str());
}

/// Where other ranks reach this one.
Result<std::string> ownAddress(Rendezvous &rendezvous) {
  std::string named = variable("AUTOPAR_HOST");
  return named.empty() ? rendezvous.address() : named;
}

Result<std::unique_ptr<Rendezvous>> meet(const LaunchedRank &launch, const LaunchOptions &options,
                                         Transport *mpi) {
  RendezvousOptions meeting;
  meeting.rank = launch.rank;
  meeting.worldSize = launch.worldSize;
  meeting.arrivalTimeout = milliseconds(options.arrivalTimeoutSeconds);
  meeting.hangTimeout = milliseconds(options.hangTimeoutSeconds);
  if (launch.kind == LaunchedRank::Kind::File)
    return createFileRendezvous(launch.folder, meeting);
  if (launch.kind == LaunchedRank::Kind::Tcp)
    return createTcpRendezvous(launch.host, launch.port, meeting);
  auto share = [&](const std::string &text) {
    return shareText(*mpi, text, meeting.arrivalTimeout);
  };
  return createTcpRendezvous(share, variable("AUTOPAR_HOST"), meeting);
}

Result<std::unique_ptr<Transport>> connectByGloo(const LaunchedRank &launch, Rendezvous &rendezvous,
                                                 const LaunchOptions &options) {
  TransportOptions transport;
  transport.rank = launch.rank;
  transport.worldSize = launch.worldSize;
  transport.rendezvous = &rendezvous;
  transport.timeout = milliseconds(options.arrivalTimeoutSeconds);
  transport.hangTimeout = milliseconds(options.hangTimeoutSeconds);
  auto address = ownAddress(rendezvous);
  if (!address)
    return address.status();
  transport.host = address.take();
  return loadTransport("gloo", transport);
}

/// MPI brings the ranks together; that one of them is gone they hear from a rendezvous beside it.
Result<World> joinMpi(const LaunchedRank &launch, const LaunchOptions &options) {
  World world;
  TransportOptions transport;
  transport.rank = launch.rank;
  transport.worldSize = launch.worldSize;
  auto connected = loadTransport("mpi", transport);
  if (!connected)
    return connected.status();
  world.transport = connected.take();
  if (launch.worldSize == 1)
    return world;
  auto rendezvous = meet(launch, options, world.transport.get());
  if (!rendezvous) {
    world.transport->abort(rendezvous.status());
    return rendezvous.status();
  }
  world.rendezvous = rendezvous.take();
  world.transport->setRendezvous(*world.rendezvous);
  return world;
}

} // namespace

Result<LaunchedRank> detectLaunch(const LaunchOptions &options) {
  if (!options.master.empty() && !options.rendezvous.empty())
    return usage("--master and --rendezvous exclude each other: ranks meet at one place");
  if (options.rank >= 0 || options.worldSize >= 0)
    return fromFlags(options);
  if (!options.master.empty() || !options.rendezvous.empty())
    return usage("--master and --rendezvous say where ranks meet that --rank and --world-size "
                 "number; give those too, or leave them to the launcher");
  auto rank = number(variable("OMPI_COMM_WORLD_RANK")),
       size = number(variable("OMPI_COMM_WORLD_SIZE"));
  if (rank && size) {
    LaunchedRank launch =
        numbered(*rank, *size, "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK");
    launch.kind = LaunchedRank::Kind::Mpi;
    return launch;
  }
  if (!variable("RANK").empty())
    return fromTorchrun();
  if (!variable("SLURM_PROCID").empty() && number(variable("SLURM_NTASKS")).value_or(1) > 1)
    return fromSlurm();
  if (number(variable("PMI_RANK")) && number(variable("PMI_SIZE")).value_or(1) > 1)
    return fromPmi();
  return LaunchedRank{};
}

Result<World> joinWorld(const LaunchedRank &launch, const LaunchOptions &options) {
  if (launch.kind == LaunchedRank::Kind::InProcess)
    return World{};
  if (launch.kind == LaunchedRank::Kind::Mpi)
    return joinMpi(launch, options);
  World world;
  auto rendezvous = meet(launch, options, nullptr);
  if (!rendezvous)
    return rendezvous.status();
  world.rendezvous = rendezvous.take();
  auto connected = connectByGloo(launch, *world.rendezvous, options);
  if (!connected) {
    Status known = world.rendezvous->verdict();
    Status why = known.isOk()
                     ? explainLoss(connected.status(), [&] { return world.rendezvous->verdict(); })
                     : known;
    world.rendezvous->fail(why);
    return why;
  }
  world.transport = connected.take();
  return world;
}

void World::fail(const Status &reason) {
  if (transport)
    transport->abort(reason);
  if (rendezvous)
    rendezvous->fail(reason);
}

} // namespace autopar::runtime
