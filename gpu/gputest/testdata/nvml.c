/*
 * A stand-in for libnvidia-ml.so.1. Its answers are in the file "state" next to it, one "key value" a line, which is
 * read again with every call: a test changes the file while the library is in use. A value that begins with "!" is the
 * number to fail with; with the value "wait" a call hangs until the file says something else. Keys that are not in the
 * file are not supported. The declarations are those of NVIDIA's nvml.h, as far as they are needed.
 *
 *   init !9                       nvmlInit fails
 *   count 2                       how many GPUs there are
 *   0.uuid GPU-1                  of GPU 0; also name, bus (a number), clock, max_clock, reasons, throttle_reasons, utilisation,
 *                                 total, used, free, reserved, power, limit, temperature, ecc
 *   0.processes 12:40,34:5        PIDs and their shares in percent
 *   0.mig 2                       it is divided into two parts
 *   0.0.uuid MIG-1                of the first part; also instance, total, used, free, reserved
 *   0.xid 31:1                    error 31; the second number is another one for each error to report. With a third, of an instance
 *
 * A process that calls a function before nvmlInit or after nvmlShutdown is aborted, so that the fault is found.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int nvmlReturn_t;
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, VERSION_MISMATCH = 25 };

typedef struct { int gpu, part; } *nvmlDevice_t;
static struct { int gpu, part; } handles[8][9]; /* [gpu][part + 1] */

static int initialised; /* so many times */

static void check(const char *function) {
	if (!initialised) {
		fprintf(stderr, "%s was called while NVML was not initialised\n", function);
		abort();
	}
}

static FILE *state(void) {
	char path[4096];
	Dl_info self;
	if (!dladdr(handles, &self))
		return 0;
	snprintf(path, sizeof path - 5, "%s", self.dli_fname);
	strcpy(strrchr(path, '/') + 1, "state");
	return fopen(path, "r");
}

/* look copies the value of a key; it returns the number to fail with. */
static nvmlReturn_t look(const char *key, char *value, size_t size) {
	char line[512];
	nvmlReturn_t ret = NOT_SUPPORTED;
	FILE *f = state();
	if (!f)
		return NOT_SUPPORTED;
	while (fgets(line, sizeof line, f)) {
		size_t n = strlen(key);
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, key, n) || line[n] != ' ')
			continue;
		ret = SUCCESS;
		if (line[n + 1] == '!')
			ret = atoi(line + n + 2);
		else
			snprintf(value, size, "%s", line + n + 1);
		break;
	}
	fclose(f);
	return ret;
}

/* find looks until it is not told to wait. */
static nvmlReturn_t find(const char *key, char *value, size_t size) {
	nvmlReturn_t ret;
	while ((ret = look(key, value, size)) == SUCCESS && !strcmp(value, "wait"))
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, 0);
	return ret;
}

static nvmlReturn_t text(nvmlDevice_t d, const char *what, char *value, size_t size) {
	char key[64];
	if (d->part >= 0)
		snprintf(key, sizeof key, "%d.%d.%s", d->gpu, d->part, what);
	else
		snprintf(key, sizeof key, "%d.%s", d->gpu, what);
	return find(key, value, size);
}

static nvmlReturn_t number(nvmlDevice_t d, const char *what, unsigned long long *value) {
	char found[64];
	nvmlReturn_t ret = text(d, what, found, sizeof found);
	if (ret == SUCCESS)
		*value = strtoull(found, 0, 0);
	return ret;
}

static nvmlReturn_t small(nvmlDevice_t d, const char *what, unsigned *value) {
	unsigned long long found;
	nvmlReturn_t ret = number(d, what, &found);
	if (ret == SUCCESS)
		*value = found;
	return ret;
}

nvmlReturn_t nvmlInit_v2(void) {
	char ignored[64];
	nvmlReturn_t ret = find("init", ignored, sizeof ignored);
	if (ret != SUCCESS && ret != NOT_SUPPORTED)
		return ret;
	__atomic_add_fetch(&initialised, 1, __ATOMIC_SEQ_CST);
	return SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) {
	check("nvmlShutdown");
	__atomic_sub_fetch(&initialised, 1, __ATOMIC_SEQ_CST);
	return SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t ret) { return "said by the library"; }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
	char found[64];
	check("nvmlDeviceGetCount_v2");
	nvmlReturn_t ret = find("count", found, sizeof found);
	if (ret == SUCCESS)
		*count = atoi(found);
	return ret;
}

static nvmlDevice_t handle(int gpu, int part) {
	nvmlDevice_t d = (nvmlDevice_t)&handles[gpu][part + 1];
	d->gpu = gpu;
	d->part = part;
	return d;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *d) {
	check("nvmlDeviceGetHandleByIndex_v2");
	*d = handle(index, -1);
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *value, unsigned size) {
	check("nvmlDeviceGetUUID");
	return text(d, "uuid", value, size);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *value, unsigned size) {
	check("nvmlDeviceGetName");
	return text(d, "name", value, size);
}

typedef struct {
	char busIdLegacy[16];
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci) {
	check("nvmlDeviceGetPciInfo_v3");
	memset(pci, 0, sizeof *pci);
	return small(d, "bus", &pci->bus);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *current, unsigned *pending) {
	unsigned parts;
	check("nvmlDeviceGetMigMode");
	nvmlReturn_t ret = small(d, "mig", &parts);
	if (ret == SUCCESS)
		*current = *pending = parts > 0;
	return ret;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *count) {
	check("nvmlDeviceGetMaxMigDeviceCount");
	*count = 7;
	return SUCCESS;
}

/* The first place is empty. */
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned index, nvmlDevice_t *part) {
	unsigned parts;
	check("nvmlDeviceGetMigDeviceHandleByIndex");
	nvmlReturn_t ret = small(d, "mig", &parts);
	if (ret != SUCCESS)
		return ret;
	if (index < 1 || index > parts)
		return NOT_FOUND;
	*part = handle(d->gpu, index - 1);
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *id) {
	check("nvmlDeviceGetGpuInstanceId");
	return small(d, "instance", id);
}

/* Clocks, power and so on are not a part's. */
#define WHOLE(name, what, type, read)                          \
	nvmlReturn_t name(nvmlDevice_t d, type *value) {           \
		check(#name);                                          \
		return d->part >= 0 ? INVALID_ARGUMENT : read(d, what, value); \
	}
#define WHOLE_OF(name, kind, what, type, read)                 \
	nvmlReturn_t name(nvmlDevice_t d, int of, type *value) {   \
		check(#name);                                          \
		return d->part >= 0 || of != kind ? INVALID_ARGUMENT : read(d, what, value); \
	}

WHOLE_OF(nvmlDeviceGetClockInfo, 1, "clock", unsigned, small)
WHOLE_OF(nvmlDeviceGetMaxClockInfo, 1, "max_clock", unsigned, small)
WHOLE_OF(nvmlDeviceGetTemperature, 0, "temperature", unsigned, small)
WHOLE(nvmlDeviceGetCurrentClocksEventReasons, "reasons", unsigned long long, number)
WHOLE(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle_reasons", unsigned long long, number)
WHOLE(nvmlDeviceGetPowerUsage, "power", unsigned, small)
WHOLE(nvmlDeviceGetEnforcedPowerLimit, "limit", unsigned, small)

typedef struct { unsigned version; int sensor, temperature; } nvmlTemperature_t;

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t d, nvmlTemperature_t *t) {
	check("nvmlDeviceGetTemperatureV");
	if (t->version != (sizeof *t | 1 << 24))
		return VERSION_MISMATCH;
	return d->part >= 0 || t->sensor != 0 ? INVALID_ARGUMENT : small(d, "temperature", (unsigned *)&t->temperature);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int type, int counter, unsigned long long *count) {
	check("nvmlDeviceGetTotalEccErrors");
	return d->part >= 0 || type != 1 || counter != 0 ? INVALID_ARGUMENT : number(d, "ecc", count);
}

typedef struct { unsigned gpu, memory; } nvmlUtilization_t;

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) {
	check("nvmlDeviceGetUtilizationRates");
	return small(d, "utilisation", &u->gpu);
}

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m) {
	check("nvmlDeviceGetMemoryInfo_v2");
	if (m->version != (sizeof *m | 2 << 24))
		return VERSION_MISMATCH;
	m->reserved = 0;
	number(d, "reserved", &m->reserved);
	nvmlReturn_t ret = number(d, "total", &m->total);
	if (ret == SUCCESS)
		ret = number(d, "used", &m->used);
	return ret == SUCCESS ? number(d, "free", &m->free) : ret;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) {
	nvmlMemory_v2_t v2 = {.version = sizeof v2 | 2 << 24};
	check("nvmlDeviceGetMemoryInfo");
	unsigned long long reserved = 0;
	number(d, "reserved", &reserved);
	nvmlReturn_t ret = number(d, "total", &m->total);
	if (ret == SUCCESS)
		ret = number(d, "used", &m->used);
	m->used += reserved;
	return ret == SUCCESS ? number(d, "free", &m->free) : ret;
}

typedef struct { unsigned pid; unsigned long long timeStamp; unsigned smUtil, memUtil, encUtil, decUtil; } nvmlProcessUtilizationSample_t;

static unsigned long long microseconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *list, unsigned *count, unsigned long long since) {
	char found[512];
	unsigned n = 0, room = *count;
	check("nvmlDeviceGetProcessUtilization");
	if (d->part >= 0)
		return NOT_SUPPORTED;
	nvmlReturn_t ret = text(d, "processes", found, sizeof found);
	if (ret != SUCCESS)
		return ret;
	for (char *at = found; *at; n++) {
		unsigned pid = strtoul(at, &at, 10), share = 0;
		if (*at == ':')
			share = strtoul(at + 1, &at, 10);
		if (*at == ',')
			at++;
		if (list && n < room)
			list[n] = (nvmlProcessUtilizationSample_t){.pid = pid, .timeStamp = microseconds(), .smUtil = share};
	}
	*count = n;
	return n == 0 ? NOT_FOUND : !list || n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

typedef struct { nvmlDevice_t device; unsigned long long eventType, eventData; unsigned gpuInstanceId, computeInstanceId; } nvmlEventData_t;

static int registered[8];
static int reported[8]; /* the second number of the latest error */

nvmlReturn_t nvmlEventSetCreate(void **set) {
	check("nvmlEventSetCreate");
	*set = registered;
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, void *set) {
	char found[64];
	check("nvmlDeviceRegisterEvents");
	if (d->part >= 0 || types != 8)
		return INVALID_ARGUMENT;
	nvmlReturn_t ret = text(d, "xid", found, sizeof found);
	if (ret == SUCCESS)
		registered[d->gpu] = 1;
	return ret;
}

nvmlReturn_t nvmlEventSetWait_v2(void *set, nvmlEventData_t *data, unsigned milliseconds) {
	unsigned long long end = microseconds() + milliseconds * 1000ull;
	check("nvmlEventSetWait_v2");
	do {
		for (int gpu = 0; gpu < 8; gpu++) {
			char found[64];
			int xid = 0, serial = 0;
			unsigned instance = 0xFFFFFFFF;
			if (!registered[gpu] || text(handle(gpu, -1), "xid", found, sizeof found) != SUCCESS)
				continue;
			if (sscanf(found, "%d:%d:%u", &xid, &serial, &instance) < 2 || serial == reported[gpu])
				continue;
			reported[gpu] = serial;
			*data = (nvmlEventData_t){handle(gpu, -1), 8, xid, instance, 0xFFFFFFFF};
			return SUCCESS;
		}
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, 0);
	} while (microseconds() < end);
	return TIMEOUT;
}

nvmlReturn_t nvmlEventSetFree(void *set) {
	check("nvmlEventSetFree");
	return SUCCESS;
}
