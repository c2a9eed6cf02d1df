// SPDX-License-Identifier: Apache-2.0
// All devices of a host use the network at once, each with its counterparts on the other hosts, as
// in a mesh whose axis is the hosts. What is timed is the communicator of a run itself.
#include "NetworkLink.h"

#include "Probe.h"
#include "autopar/Cost/LinkFit.h"
#include "autopar/Runtime/Communicator.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace autopar::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kVerdictInterval = std::chrono::milliseconds(100);
/// Larger messages tell nothing more once one takes so long.
constexpr double kLongestUs = 500e3;
/// How long a size is repeated.
constexpr double kRepeatedUs = 300e3, kQuicklyRepeatedUs = 60e3;
/// Messages beside which ranks compute: so many at least, of bytes that take about so long.
constexpr int32_t kBeside = 8;
constexpr double kBesideUs = 5e3;

/// Its name and the run of its kernel.
std::string thisHost() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return std::string(name) + " " + boot;
}

class Ranks {
public:
  explicit Ranks(runtime::World &world)
      : rendezvous(world.rendezvous.get()),
        communicator(runtime::createMessageCommunicator(std::move(world.transport))) {
    for (int32_t rank = 0; rank < communicator->worldSize(); ++rank)
      all.push_back(rank);
  }

  int32_t rank() const { return communicator->rank(); }
  int32_t count() const { return int32_t(all.size()); }

  Status wait(Result<runtime::Token> token) {
    if (!token)
      return token.status();
    for (auto last = Clock::now(); true;) {
      auto done = communicator->test(*token);
      if (!done)
        return done.status();
      if (*done)
        return Status::ok();
      communicator->wait(std::chrono::milliseconds(1));
      AUTOPAR_RETURN_IF_ERROR(checkOthers(last));
    }
  }

  /// What every rank says, `own.size()` bytes each.
  Result<std::string> gather(const std::string &own) {
    std::string gathered(own.size() * all.size(), 0);
    AUTOPAR_RETURN_IF_ERROR(wait(communicator->collective(
        {artifact::CollectiveKind::AllGather, artifact::Reduction::Sum, DataType::U8,
         int64_t(own.size()), own.data(), gathered.data(), &all})));
    return gathered;
  }

  /// The longest of what it took the ranks: all of them know it.
  Result<double> longest(double own) {
    auto gathered = gather(std::string(reinterpret_cast<const char *>(&own), sizeof(own)));
    if (!gathered)
      return gathered.status();
    for (int32_t rank = 0; rank < count(); ++rank) {
      double other;
      std::memcpy(&other, gathered->data() + size_t(rank) * sizeof(other), sizeof(other));
      own = std::max(own, other);
    }
    return own;
  }

  /// Microseconds of one of `repeats` in a row.
  Result<double> time(CollectiveKind kind, int64_t bytes, int32_t ranksOfHost, int32_t repeats) {
    std::vector<int32_t> members;
    for (int32_t rank = this->rank() % ranksOfHost; rank < count(); rank += ranksOfHost)
      members.push_back(rank);
    input.resize(size_t(bytes / 4), 1);
    output.resize(input.size());
    // Whoever begins earlier would wait for the others.
    AUTOPAR_RETURN_IF_ERROR(longest(0).status());
    auto begin = Clock::now();
    for (int32_t i = 0; i < repeats; ++i)
      AUTOPAR_RETURN_IF_ERROR(
          wait(kind == CollectiveKind::Permute
                   ? communicator->permute(input.data(), output.data(), bytes,
                                           neighbour(ranksOfHost), neighbour(-ranksOfHost))
                   : communicator->collective({artifact::CollectiveKind::AllReduce,
                                               artifact::Reduction::Sum, DataType::F32, bytes / 4,
                                               input.data(), output.data(), &members})));
    return longest(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
                   repeats);
  }

  /// Microseconds of computing that a rank loses per byte which it sends and receives meanwhile:
  /// what a while of it takes by itself, against what it takes beside messages.
  Result<double> lossPerByte(int64_t bytes, int32_t ranksOfHost) {
    input.resize(size_t(bytes / 4), 1);
    output.resize(input.size());
    AUTOPAR_RETURN_IF_ERROR(longest(0).status());
    auto begin = Clock::now();
    int64_t alone = 0;
    for (; microsecondsSince(begin) < kBeside * kBesideUs; ++alone)
      computeALittle();
    double eachUs = microsecondsSince(begin) / double(alone);
    AUTOPAR_RETURN_IF_ERROR(longest(0).status());
    begin = Clock::now();
    auto last = begin;
    int64_t beside = 0;
    for (int32_t message = 0; message < kBeside; ++message) {
      auto token = communicator->permute(input.data(), output.data(), bytes, neighbour(ranksOfHost),
                                         neighbour(-ranksOfHost));
      bool isDone = false;
      while (token && !isDone) {
        computeALittle();
        ++beside;
        auto done = communicator->test(*token);
        if (!done)
          return done.status();
        AUTOPAR_RETURN_IF_ERROR(checkOthers(last));
        isDone = *done;
      }
      if (!token)
        return token.status();
    }
    double lostUs = microsecondsSince(begin) - double(beside) * eachUs;
    return longest(std::max(0.0, lostUs) / (kBeside * double(bytes)));
  }

private:
  runtime::Rendezvous *rendezvous;
  std::vector<int32_t> all;
  std::vector<float> numbers = std::vector<float>(4096, 1.0f); ///< that are computed

  int32_t neighbour(int32_t distance) const { return (rank() + count() + distance) % count(); }
  Status checkOthers(Clock::time_point &last) {
    if (!rendezvous || Clock::now() - last <= kVerdictInterval)
      return Status::ok();
    last = Clock::now();
    return rendezvous->verdict();
  }
  static double microsecondsSince(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  /// Some tens of microseconds.
  void computeALittle() {
    for (int32_t i = 0; i < 32; ++i)
      for (float &number : numbers)
        number = number * 0.999f + 0.001f;
  }

  std::vector<float> input, output;
  std::unique_ptr<runtime::Communicator> communicator;
};

/// On how many hosts the ranks are, as many on each.
Result<int32_t> countHosts(Ranks &ranks, int64_t devices) {
  std::string own = thisHost();
  own.resize(320);
  auto gathered = ranks.gather(own);
  if (!gathered)
    return gathered.status();
  auto hostOf = [&](int64_t rank) {
    return gathered->substr(size_t(rank) * own.size(), own.size());
  };
  for (int64_t rank = 0; rank < ranks.count(); ++rank) {
    bool isNew = rank % devices == 0;
    for (int64_t before = 0; before < rank; ++before)
      if ((hostOf(before) == hostOf(rank)) != (!isNew && before / devices == rank / devices))
        return Status::mismatch(
            "rank " + std::to_string(rank) + " is on " +
            (isNew ? "a host that has ranks enough" : "another host than the rank before it") +
            ": expected one for each device of the cluster file, " + std::to_string(devices) +
            ", on each host, host by host");
  }
  if (ranks.count() % devices != 0 || ranks.count() == devices)
    return Status::mismatch("expected two hosts or more with a rank for each device of the cluster "
                            "file, " +
                            std::to_string(devices) + ", got " + std::to_string(ranks.count()) +
                            (ranks.count() == 1 ? " rank" : " ranks"));
  return int32_t(ranks.count() / devices);
}

/// Of one rank's messages while all send.
Result<Link> measureLink(Ranks &ranks, int32_t hosts, const ProfileOptions &options) {
  std::vector<TimedCollective> timed;
  bool says = ranks.rank() == 0 && !options.quiet;
  double repeated = options.quick ? kQuicklyRepeatedUs : kRepeatedUs;
  for (CollectiveKind kind : {CollectiveKind::Permute, CollectiveKind::AllReduce})
    for (int64_t bytes = 1024; bytes <= int64_t{64} << 20; bytes *= 4) {
      auto once = ranks.time(kind, bytes, ranks.count() / hosts, 2);
      if (!once)
        return once.status();
      auto us = ranks.time(kind, bytes, ranks.count() / hosts,
                           int32_t(std::clamp(repeated / *once, 3., 200.)));
      if (!us)
        return us.status();
      timed.push_back({kind, double(bytes), hosts, *us});
      if (says)
        std::fprintf(stderr, "autopar-profile: %s %lld KiB among %d hosts: %.1f us\n",
                     std::string(name(kind)).c_str(), static_cast<long long>(bytes >> 10), hosts,
                     *us);
      if (*us > kLongestUs)
        break;
    }
  auto fit = fitLink(timed);
  if (!fit)
    return fit.status().at("messages between hosts");
  if (says)
    std::fprintf(stderr,
                 "autopar-profile: network: %.2f us, %.4f GB/s; times by it are off by %.0f %% on "
                 "average\n",
                 fit->link.latencyUs, fit->link.bytesPerSecond * 1e-9, 100 * fit->meanError);
  return fit->link;
}

/// How much of what they compute ranks lose while their messages go on.
Result<double> measureLoss(Ranks &ranks, int32_t hosts, const Link &link,
                           const ProfileOptions &options) {
  auto most = int64_t{1} << 20;
  auto bytes = std::clamp(int64_t(kBesideUs * 1e-6 * link.bytesPerSecond), int64_t{4096}, most);
  std::vector<double> losses;
  for (int32_t i = 0; i < (options.quick ? 3 : 7); ++i) {
    auto loss = ranks.lossPerByte(bytes / 4 * 4, ranks.count() / hosts);
    if (!loss)
      return loss.status();
    losses.push_back(*loss * link.bytesPerSecond * 1e-6);
  }
  double loss = median(losses);
  if (ranks.rank() == 0 && !options.quiet)
    std::fprintf(
        stderr, "autopar-profile: network: while bytes go on, computing loses %.2f of their time\n",
        loss);
  return loss;
}

} // namespace

Result<Cluster> measureHosts(const Cluster &host, runtime::World &world,
                             const ProfileOptions &options) {
  if (host.nodeCount() != 1)
    return Status::badInput("'" + options.hosts + "' has " + std::to_string(host.nodeCount()) +
                            " nodes; --hosts takes the file of one host, as autopar-profile writes "
                            "it there");
  Ranks ranks(world);
  auto hosts = countHosts(ranks, host.deviceCount());
  if (!hosts)
    return hosts.status();
  auto link = measureLink(ranks, *hosts, options);
  if (!link)
    return link.status();
  Cluster cluster = host;
  cluster.name += "; " + std::to_string(*hosts) + " hosts";
  cluster.nodes.front().count = *hosts;
  if (host.deviceTypes.front().communicatesWhileIdle) {
    auto loss = measureLoss(ranks, *hosts, *link, options);
    if (!loss)
      return loss.status();
    link->computeLoss = *loss;
  }
  cluster.levels.push_back({"network", *link, 0});
  AUTOPAR_RETURN_IF_ERROR(cluster.verify());
  return cluster;
}

} // namespace autopar::tools
