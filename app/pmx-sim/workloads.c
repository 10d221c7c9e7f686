/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sizes of messages in data centres, as the literature on transports uses them. Each table has
 * about 24 points of a distribution that was published with thousands; between two points the
 * logarithm of the size is taken to be uniform. The means differ from the published ones by at most
 * 4 %, the parts of all messages below any size by at most 0.013.
 *
 * W1 to W5 are those of Homa (Montazeri et al., SIGCOMM 2018, section 5); the points are from the
 * files of its simulation (github.com/PlatformLab/HomaSimulation, sizeDistributions):
 * FacebookKeyValue_Sampled, Google_SearchRPC, Google_AllRPC, Facebook_HadoopDist_All and
 * DCTCP_MsgSizeDist, the last in packets of 1460 bytes.
 */
#include <math.h>

#include "workloads.h"

/* Accesses to a collection of memcached servers at Facebook (Atikoglu et al., SIGMETRICS 2012). */
static const struct size_point w1[] = {{1, 0.005830}, {3, 0.276420}, {10, 0.327680}, {11, 0.417570},
	{13, 0.421750}, {15, 0.470000}, {34, 0.514751}, {69, 0.583657}, {461, 0.889221},
	{877, 0.957141}, {1442, 0.983078}, {1989, 0.991438}, {3367, 0.997484}, {4381, 0.998691},
	{6043, 0.999427}, {8582, 0.999774}, {13305, 0.999931}, {16810, 0.999964}, {22518, 0.999984},
	{38111, 0.999996}, {49580, 0.999998}, {100000, 1}};

/* A search application at Google. */
static const struct size_point w2[] = {{2, 0.075603}, {3, 0.132306}, {4, 0.151207}, {32, 0.189008},
	{49, 0.285208}, {64, 0.326436}, {128, 0.341703}, {183, 0.414985}, {256, 0.463840},
	{341, 0.687120}, {427, 0.821088}, {512, 0.910401}, {731, 0.939026}, {1365, 0.969560},
	{2409, 0.985305}, {4096, 0.995324}, {8192, 0.998425}, {65536, 0.999349}, {131072, 0.999871},
	{163840, 0.999913}, {262144, 0.999975}, {1071908, 0.999993}, {2243665, 0.999998},
	{3529904, 1}};

/* All applications of a data centre at Google. */
static const struct size_point w3[] = {{3, 0.064883}, {32, 0.097324}, {64, 0.155271},
	{96, 0.286139}, {186, 0.443028}, {256, 0.497901}, {331, 0.628365}, {433, 0.732736},
	{512, 0.784921}, {623, 0.812878}, {1229, 0.878420}, {2286, 0.914298}, {10335, 0.972761},
	{16384, 0.984694}, {35606, 0.990857}, {131072, 0.997129}, {200864, 0.998049},
	{477477, 0.999396}, {590136, 0.999556}, {1541023, 0.999841}, {3841911, 0.999947},
	{8231141, 0.999985}, {13293619, 0.999997}, {15158197, 1}};

/* A Hadoop cluster at Facebook (Roy et al., SIGCOMM 2015). */
static const struct size_point w4[] = {{53, 0.000740}, {217, 0.014900}, {300, 0.052000},
	{326, 0.137500}, {365, 0.189580}, {425, 0.223000}, {480, 0.263900}, {600, 0.459100},
	{737, 0.552000}, {885, 0.591200}, {1534, 0.646800}, {1664, 0.667300}, {7830, 0.708200},
	{31946, 0.721200}, {39973, 0.739800}, {44260, 0.758400}, {51046, 0.816000},
	{70722, 0.832700}, {75180, 0.842000}, {81565, 0.871700}, {288520, 0.953500},
	{1769244, 0.981400}, {2169118, 0.987000}, {10000000, 1}};

/* Web search (Alizadeh et al., "Data Center TCP", SIGCOMM 2010). */
static const struct size_point w5[] = {{1460, 0.025000}, {2920, 0.050000}, {4380, 0.075000},
	{5840, 0.100000}, {8760, 0.150000}, {18980, 0.200000}, {27740, 0.300000}, {37960, 0.350000},
	{52560, 0.419500}, {64240, 0.471500}, {77380, 0.530000}, {127020, 0.559750},
	{194180, 0.600000}, {408800, 0.627528}, {721240, 0.667603}, {1315460, 0.735135},
	{1946180, 0.800000}, {3260180, 0.845000}, {4866180, 0.900000}, {10221460, 0.902505},
	{16061460, 0.932506}, {23361460, 0.970007}, {27741460, 0.992507}, {29200000, 1}};

#define WORKLOAD(name, points)                                                                     \
	{                                                                                          \
		name, points, sizeof(points) / sizeof((points)[0])                                 \
	}

const struct workload workloads[WORKLOADS] = {
	WORKLOAD("W1", w1),
	WORKLOAD("W2", w2),
	WORKLOAD("W3", w3),
	WORKLOAD("W4", w4),
	WORKLOAD("W5", w5),
};

uint32_t
workload_size(const struct workload *w, double part)
{
	const struct size_point *p = w->points;
	uint32_t i = 0;

	while (i + 1 < w->count && p[i].part < part)
		i++;
	if (i == 0)
		return p[0].bytes;
	const double between = (part - p[i - 1].part) / (p[i].part - p[i - 1].part);
	const double low = p[i - 1].bytes, high = p[i].bytes;

	return (uint32_t)lround(low * pow(high / low, fmin(between, 1)));
}

double
workload_mean(const struct workload *w, double (*of)(uint32_t bytes))
{
	enum { STEPS = 100000 };
	double sum = 0;

	for (uint32_t i = 0; i < STEPS; i++)
		sum += of(workload_size(w, (i + 0.5) / STEPS));
	return sum / STEPS;
}
