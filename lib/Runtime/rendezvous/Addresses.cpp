// SPDX-License-Identifier: Apache-2.0
// Under which address other machines reach this one.
#include "Wire.h"

#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>

namespace autopar::runtime {
namespace {

/// Empty for a loopback.
std::string textOf(const sockaddr *address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    in_addr v4 = reinterpret_cast<const sockaddr_in *>(address)->sin_addr;
    bool isLoopback = ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return isLoopback ? "" : inet_ntop(AF_INET, &v4, text, sizeof(text));
  }
  if (address->sa_family != AF_INET6)
    return "";
  const in6_addr &v6 = reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, &v6.s6_addr[12], 4);
    return textOf(reinterpret_cast<const sockaddr *>(&v4));
  }
  return IN6_IS_ADDR_LOOPBACK(&v6) ? "" : inet_ntop(AF_INET6, &v6, text, sizeof(text));
}

template <typename Ask>
std::string endOf(int fd, Ask ask) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto *plain = reinterpret_cast<sockaddr *>(&address);
  return ask(fd, plain, &length) == 0 ? textOf(plain) : "";
}

} // namespace

std::set<std::string> addressesOfInterfaces() {
  std::set<std::string> found;
  ifaddrs *first = nullptr;
  if (getifaddrs(&first) != 0)
    return found;
  for (ifaddrs *one = first; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) &&
        !textOf(one->ifa_addr).empty())
      found.insert(textOf(one->ifa_addr));
  freeifaddrs(first);
  return found;
}

std::string ownAddressOf(int fd) { return endOf(fd, getsockname); }
std::string peerAddressOf(int fd) { return endOf(fd, getpeername); }

Result<std::string> ownAddressForAnybody() {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::string name = ownHostName(), result;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) == 0) {
    for (addrinfo *one = found; one && result.empty(); one = one->ai_next)
      result = textOf(one->ai_addr);
    freeaddrinfo(found);
  }
  if (!result.empty())
    return result;
  std::set<std::string> addresses = addressesOfInterfaces();
  if (addresses.size() == 1)
    return *addresses.begin();
  std::string list;
  for (const std::string &address : addresses)
    list += (list.empty() ? "" : ", ") + address;
  return Status(StatusCode::NoDevice,
                "the name of this machine, " + name +
                    ", stands for no address that other machines reach, and its interfaces have " +
                    (list.empty() ? "none" : "more than one (" + list + ")") +
                    "; set AUTOPAR_HOST to the one that they reach");
}

} // namespace autopar::runtime
