// SPDX-License-Identifier: Apache-2.0
// Binary form to Program: header, tables and their checks. The layout is described in ms_custom_ops/program/codec.py.
#include <algorithm>
#include <cstring>

#include "decode.h"
#include "limits.inc"
#include "number.h"

namespace mco {

namespace {

constexpr uint32_t kVersion = 3;
constexpr size_t kHeaderBytes = 24;

// A count of a table that has a limit.
uint32_t limited(Reader& in, size_t entry, const char* what, int64_t most) {
  const uint32_t n = in.count(entry);
  if (n > most) fail("program bytes: %u %s; accepted: at most %lld", n, what, (long long)most);
  return n;
}

uint32_t crc32(const uint8_t* data, size_t size) {
  uint32_t table[256];
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; ++i) crc = table[(crc ^ data[i]) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

DType dtype_code(uint8_t code) {
  if (code >= kDTypes) fail("program bytes: dtype %u; accepted: 0 to %d", code, kDTypes - 1);
  return DType(code);
}

void read_scopes(Reader& in, Program& p) {
  const uint32_t n = in.count(9);
  for (uint32_t i = 0; i < n; ++i) {
    const uint8_t scope = in.take<uint8_t>();
    const int64_t bytes = in.take<int64_t>();
    if (scope >= kScopes || scope == GM) fail("program bytes: scope %u has no size on a chip", scope);
    check_scope_bytes(Scope(scope), bytes);
    p.scope_bytes[scope] = bytes;
  }
}

// The bytes that a buffer starts with: as many as it has.
void read_table(Reader& in, Buffer& b) {
  if (b.scope != GM || b.size_bytes <= 0 || uint64_t(b.size_bytes) > in.left()) {
    fail(
        "program bytes: buffer %s has a table of %lld bytes in %s; accepted: of as many bytes as a gm buffer of known "
        "size has, and at most the %zu that are left",
        b.name.c_str(), (long long)b.size_bytes, kScopeName[b.scope], in.left());
  }
  const uint8_t* from = in.bytes(size_t(b.size_bytes));
  b.table.assign(from, from + b.size_bytes);
}

Buffer read_buffer(Reader& in, const Strings& strings) {
  Buffer b;
  b.name = Name(in.string(strings));
  const uint8_t scope = in.take<uint8_t>();
  b.dtype = dtype_code(in.take<uint8_t>());
  const uint8_t kind = in.take<uint8_t>(), flags = in.take<uint8_t>();
  if (scope >= kScopes || kind > uint8_t(Kind::Local))
    fail("program bytes: buffer %s: scope %u, kind %u", b.name.c_str(), scope, kind);
  b.scope = Scope(scope);
  b.kind = Kind(kind);
  b.atomic_init = flags & 1;
  b.has_init = flags & 2;
  b.size_bytes = in.take<int64_t>();
  b.loc = in.take<uint32_t>();
  b.init_value = in.take<double>();
  const uint32_t rank = in.take<uint32_t>(), copies = in.take<uint32_t>();
  if (rank > limits::kRank || copies < 1 || copies > limits::kThreads) {
    fail("program bytes: buffer %s has rank %u and %u copies; accepted: rank 0 to %lld, 1 to %lld copies",
         b.name.c_str(), rank, copies, (long long)limits::kRank, (long long)limits::kThreads);
  }
  for (uint32_t i = 0; i < rank; ++i) b.dims.push_back(in.take<int64_t>());
  b.address = in.take<int64_t>();
  for (uint32_t i = 1; i < copies; ++i) b.copies.push_back(in.take<int64_t>());
  if (flags & 4) read_table(in, b);
  return b;
}

// One copy of a local tensor lies in its scope.
void check_place(const Program& p, const Buffer& b, int64_t address) {
  const int64_t have = p.scope_bytes[b.scope];
  if (b.size_bytes >= 0 && address >= 0 && b.size_bytes <= have && address <= have - b.size_bytes) return;
  fail("%s: %s lies in bytes [%lld, %lld) of %s, it has %lld [%s]", p.name.c_str(), b.name.c_str(), (long long)address,
       (long long)(uint64_t(address) + uint64_t(b.size_bytes)), kScopeName[b.scope], (long long)have,
       p.location(b.loc).c_str());
}

void read_registers(Reader& in, const Strings& strings, Program& p) {
  const uint32_t n = limited(in, 6, "scalars", limits::kScalars);
  for (uint32_t i = 0; i < n; ++i) {
    Register r;
    r.name = Name(in.string(strings));
    r.dtype = dtype_code(in.take<uint8_t>());
    r.kind = in.take<uint8_t>();
    if (r.kind > 2) fail("program bytes: register %s has kind %u; accepted: 0 to 2", r.name.c_str(), r.kind);
    p.registers.push_back(std::move(r));
  }
}

void read_expressions(Reader& in, Program& p) {
  const uint32_t n = in.count(20);
  p.exprs.nodes.reserve(n);
  for (uint32_t i = 0; i < n; ++i) {
    ExprNode e;
    const uint8_t op = in.take<uint8_t>();
    if (op >= uint8_t(ExprOp::kCount)) fail("program bytes: expression %u: operator %u", i, op);
    e.op = ExprOp(op);
    e.dtype = dtype_code(in.take<uint8_t>());
    in.take<uint16_t>();
    e.a = in.take<uint32_t>();
    e.b = in.take<uint32_t>();
    const int64_t raw = in.take<int64_t>();
    if (e.op == ExprOp::Const && is_float(e.dtype)) {
      e.value.f = round_to_dtype(bits_as<double>(raw), e.dtype);
    } else {
      e.value.i = e.op == ExprOp::Const ? wrap_int(raw, e.dtype) : raw;
    }
    p.exprs.nodes.push_back(e);
  }
  std::vector<DType> dtypes;
  for (const Register& r : p.registers) dtypes.push_back(r.dtype);
  p.exprs.check(dtypes);
}

void read_index_list(Reader& in, size_t limit, const char* what, std::vector<uint32_t>& out) {
  const uint32_t n = limited(in, 4, what, limits::kArguments);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t index = in.take<uint32_t>();
    if (index >= limit) fail("program bytes: %s: number %u; the table has %zu", what, index, limit);
    if (std::find(out.begin(), out.end(), index) != out.end())
      fail("program bytes: %s: number %u is listed twice", what, index);
    out.push_back(index);
  }
}

void read_gm_lists(Reader& in, Program& p) {
  read_index_list(in, p.buffers.size(), "inputs", p.inputs);
  read_index_list(in, p.buffers.size(), "outputs", p.outputs);
  read_index_list(in, p.buffers.size(), "workspaces", p.workspaces);
  read_index_list(in, p.registers.size(), "input scalars", p.input_scalars);
  const size_t arguments = p.inputs.size() + p.outputs.size() + p.workspaces.size() + p.input_scalars.size();
  if (arguments > size_t(limits::kArguments)) {
    fail("program bytes: %zu arguments; accepted: at most %lld", arguments, (long long)limits::kArguments);
  }
  std::vector<uint8_t> fed(p.buffers.size(), 0), listed(p.buffers.size(), 0);
  for (uint32_t i : p.workspaces) listed[i] = 1;
  for (const auto* list : {&p.inputs, &p.outputs, &p.workspaces}) {
    for (uint32_t i : *list) {
      if (p.buffers[i].scope != GM)
        fail("program bytes: %s is fed but lies in %s", p.buffers[i].name.c_str(), kScopeName[p.buffers[i].scope]);
      if (list == &p.workspaces && fed[i]) fail("program bytes: workspace %s is also fed", p.buffers[i].name.c_str());
      if (list != &p.workspaces) fed[i] = 1;
    }
  }
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.scope != GM || fed[i]) continue;
    if (b.size_bytes < 0)
      fail(
          "%s: workspace %s has an unknown size; accepted: a GM tensor of known size, or one that "
          "is fed",
          p.name.c_str(), b.name.c_str());
    if (!listed[i]) p.workspaces.push_back(i);
  }
}

Strings read_strings(Reader& in) {
  Strings strings;
  const uint32_t n = in.count(4);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t length = in.take<uint32_t>();
    const uint8_t* at = in.bytes(length);
    if (std::memchr(at, 0, length)) fail("program bytes: string %u holds a zero byte", i);
    strings.emplace_back(reinterpret_cast<const char*>(at), length);
  }
  if (n < 2) fail("program bytes: no kernel name and soc");
  return strings;
}

}  // namespace

void check_scope_bytes(Scope scope, int64_t bytes) {
  if (bytes >= 0 && bytes <= limits::kScopeBytes) return;
  fail("scope %s has %lld bytes; accepted: 0 to %lld", kScopeName[scope], (long long)bytes,
       (long long)limits::kScopeBytes);
}

// A local tensor occupies whole blocks and may be used to their end.
void place_buffer(Program& p, Buffer& b) {
  if (b.scope == GM) {
    if (b.size_bytes < -1) fail("program bytes: buffer %s has %lld bytes", b.name.c_str(), (long long)b.size_bytes);
    b.address = 0;  // it lies where the caller says; sums with what the bytes say need not be numbers
    return;
  }
  check_place(p, b, b.address);
  for (const int64_t address : b.copies) check_place(p, b, address);
  const int64_t have = p.scope_bytes[b.scope];
  const int64_t rest = (kBlockBytes - b.size_bytes % kBlockBytes) % kBlockBytes;
  b.size_bytes += std::min(rest, have - b.address - b.size_bytes);
  p.arena_bytes[b.scope] = std::max(p.arena_bytes[b.scope], b.address + b.size_bytes);
}

Operand read_operand(Reader& in, Program& p) {
  Operand o;
  o.buffer = in.take<uint32_t>();
  if (o.buffer >= p.buffers.size())
    fail("program bytes: buffer number %u; the table has %zu", o.buffer, p.buffers.size());
  const uint32_t offset = in.take<uint32_t>();
  o.dtype = dtype_code(in.take<uint8_t>());
  o.size = kSize[o.dtype];
  o.offset = read_root(p, offset);
  if (is_float(p.exprs.dtype(o.offset))) fail("program bytes: an offset is a float");
  return o;
}

uint32_t read_root(Program& p, uint32_t index) {
  if (index >= p.exprs.nodes.size())
    fail("program bytes: expression number %u; the table has %zu", index, p.exprs.nodes.size());
  return p.exprs.root(index);
}

std::string Program::location(uint32_t loc) const {
  if (loc >= locations.size() || !*locations[loc].file.c_str()) return "?";
  return std::string(locations[loc].file.c_str()) + ":" + std::to_string(locations[loc].line);
}

std::unique_ptr<Program> decode_program(const uint8_t* bytes, size_t size) {
  if (size < kHeaderBytes || std::memcmp(bytes, "MCOP", 4) != 0) {
    fail("program bytes: not a ms_custom_ops program (no MCOP header)");
  }
  Reader header(bytes + 4, kHeaderBytes - 4);
  const uint32_t version = header.take<uint32_t>();
  const uint64_t length = header.take<uint64_t>();
  const uint32_t crc = header.take<uint32_t>();
  if (version != kVersion)
    fail("program bytes: version %u; this release reads version %u: trace again", version, kVersion);
  const uint8_t* payload = bytes + kHeaderBytes;
  if (size - kHeaderBytes != length || crc32(payload, length) != crc) {
    fail(
        "program bytes: %zu bytes of payload do not match the header (length %llu, CRC-32): the file is truncated or "
        "corrupt",
        size - kHeaderBytes, (unsigned long long)length);
  }
  Reader in(payload, length);
  auto p = std::make_unique<Program>();
  p->strings = read_strings(in);
  const Strings& strings = p->strings;
  p->name = Name(strings[0]);  // the second one is the chip
  const uint8_t flags = in.take<uint8_t>();
  p->saturate = flags & 1;
  p->split_cores = flags & 2;
  read_scopes(in, *p);
  const uint32_t n = limited(in, 46, "tensors", limits::kTensors);
  for (uint32_t i = 0; i < n; ++i) p->buffers.push_back(read_buffer(in, strings));
  read_registers(in, strings, *p);
  read_expressions(in, *p);
  const uint32_t locations = in.count(8);
  for (uint32_t i = 0; i < locations; ++i) {
    const Name file(in.string(strings));
    p->locations.push_back({file, in.take<uint32_t>()});
  }
  for (uint32_t i = 0; i < n; ++i) {
    Buffer& b = p->buffers[i];
    place_buffer(*p, b);
    if (b.scope != GM) p->locals.push_back({i, b.scope, b.address, b.size_bytes});
  }
  read_gm_lists(in, *p);
  const uint32_t meta = in.count(8);
  for (uint32_t i = 0; i < meta; ++i) {
    const Name key(in.string(strings));
    p->meta.emplace_back(key, Name(in.string(strings)));
  }
  read_body(in, strings, *p);
  if (!in.at_end()) fail("program bytes: %zu bytes after the end of the program", in.left());
  p->exprs.finish();
  return p;
}

}  // namespace mco
