package problem

// Code is a stable, published error code of the form FET-NNNN.
type Code string

// The catalogue. A code's meaning never changes; Info gives its status and description.
const (
	Malformed            Code = "FET-0001"
	Internal             Code = "FET-0002"
	Unavailable          Code = "FET-0003"
	Conflict             Code = "FET-0004"
	NotFound             Code = "FET-0005"
	Unauthenticated      Code = "FET-0006"
	Forbidden            Code = "FET-0007"
	RateLimited          Code = "FET-0008"
	UnknownMember        Code = "FET-0400"
	DataRequestInvalid   Code = "FET-0401"
	MissingMember        Code = "FET-0402"
	HeaderInvalid        Code = "FET-0403"
	PathInvalid          Code = "FET-0404"
	QueryInvalid         Code = "FET-0405"
	LimitTooLarge        Code = "FET-0406"
	SortOrderInvalid     Code = "FET-0407"
	DateInvalid          Code = "FET-0408"
	DateRangeInvalid     Code = "FET-0409"
	MetadataTooDeep      Code = "FET-0410"
	MetadataValueTooLong Code = "FET-0411"
	MetadataKeyTooLong   Code = "FET-0412"
	SSLModeInvalid       Code = "FET-0413"
	HostNotAllowed       Code = "FET-0414"
	UnsupportedMediaType Code = "FET-0415"
	BodyTooLarge         Code = "FET-0416"
	MethodNotAllowed     Code = "FET-0417"
	RangeNotSatisfiable  Code = "FET-0418"
	IdempotencyKeyReused Code = "FET-0419"
	NotFoundInTenant     Code = "FET-1001"
	NameTaken            Code = "FET-1002"
	ConnectionUnassigned Code = "FET-1014"
	AlreadyAssigned      Code = "FET-1015"
	ProductMismatch      Code = "FET-1016"
	DatasourceUnknown    Code = "FET-1020"
	ConnectionInUse      Code = "FET-1021"
	JobTerminal          Code = "FET-1022"
	ResultNotReady       Code = "FET-1023"
	ResultExpired        Code = "FET-1024"
	JobCanceled          Code = "FET-1025"
	JobTimedOut          Code = "FET-1026"
	JobLimit             Code = "FET-1027"
	JobUnknownField      Code = "FET-1028"
	JobRefused           Code = "FET-1029"
	JobAttemptsUsedUp    Code = "FET-1030"
	JobFormat            Code = "FET-1031"
	SourceUnreachable    Code = "FET-1040"
	SchemaMismatch       Code = "FET-1060"
	SchemaTooLarge       Code = "FET-1061"
	SchemaNoDatasource   Code = "FET-1062"
	TenantMissing        Code = "FET-1080"
	TenantUnknown        Code = "FET-1081"
	TenantUnavailable    Code = "FET-1082"
	TenantSuspended      Code = "FET-1083"
	PreconditionFailed   Code = "FET-1090"
)

// Info is what the catalogue says of a code.
type Info struct {
	Status  int    // HTTP status the code is answered with; 0 for codes that only occur in failed jobs
	Meaning string // one sentence for a reader of the documentation
}

// Info returns the catalogue's entry; the zero Info for a code that is not in it.
func (c Code) Info() Info { return catalogue()[c] }

// Codes returns every code of the catalogue with its entry. The caller owns the map.
func Codes() map[Code]Info { return catalogue() }

func catalogue() map[Code]Info {
	return map[Code]Info{
		Malformed:            {400, "The body is empty or unparsable, or a member has the wrong type, format or range."},
		Internal:             {500, "Something unforeseen happened."},
		Unavailable:          {503, "A dependency of the service is unavailable; retry after the time given."},
		Conflict:             {409, "The request conflicts with the present state."},
		NotFound:             {404, "There is no such route or resource."},
		Unauthenticated:      {401, "The request carries no valid token."},
		Forbidden:            {403, "The token does not permit this operation."},
		RateLimited:          {429, "Too many requests; retry after the time given."},
		UnknownMember:        {400, "The body has a member that this operation does not know."},
		DataRequestInvalid:   {400, "The data request is not valid."},
		MissingMember:        {400, "Required members are missing."},
		HeaderInvalid:        {400, "A request header is missing or not valid."},
		PathInvalid:          {400, "An id in the path is not a UUID."},
		QueryInvalid:         {400, "A query parameter is not valid."},
		LimitTooLarge:        {400, "The page limit is larger than allowed."},
		SortOrderInvalid:     {400, "The sort order is neither asc nor desc."},
		DateInvalid:          {400, "A date is not of the form YYYY-MM-DD."},
		DateRangeInvalid:     {400, "The start date is after the end date."},
		MetadataTooDeep:      {400, "The metadata are nested deeper than allowed."},
		MetadataValueTooLong: {400, "A string in the metadata is longer than allowed."},
		MetadataKeyTooLong:   {400, "A key in the metadata is longer than allowed."},
		SSLModeInvalid:       {400, "The SSL mode is not valid for this type of database."},
		HostNotAllowed:       {400, "The host may not be connected to."},
		UnsupportedMediaType: {415, "The body is not JSON."},
		BodyTooLarge:         {413, "The body is larger than allowed."},
		MethodNotAllowed:     {405, "The route does not support this method."},
		RangeNotSatisfiable:  {416, "The requested range lies outside the result."},
		IdempotencyKeyReused: {422, "The idempotency key was used with another body."},
		NotFoundInTenant:     {404, "The connection or job does not exist."},
		NameTaken:            {409, "The configuration name is already used."},
		ConnectionUnassigned: {400, "A connection of the job has no product."},
		AlreadyAssigned:      {409, "The connection already has a product."},
		ProductMismatch:      {400, "The job's source is not the connection's product."},
		DatasourceUnknown:    {400, "A datasource of the job does not exist."},
		ConnectionInUse:      {409, "A job that is not finished uses the connection."},
		JobTerminal:          {409, "The job has already ended."},
		ResultNotReady:       {409, "The job has no result yet."},
		ResultExpired:        {410, "The result has expired."},
		JobCanceled:          {0, "The job was canceled."},
		JobTimedOut:          {0, "The job ran longer than allowed."},
		JobLimit:             {0, "The job went over a limit, which the message names."},
		JobUnknownField:      {0, "A table or field of the job does not exist."},
		JobRefused:           {0, "The source refused the login or the right to read."},
		JobAttemptsUsedUp:    {0, "All attempts failed; the message tells the last cause."},
		JobFormat:            {0, "The chosen format can't hold a value."},
		SourceUnreachable:    {422, "The external database can't be reached or refuses the connection."},
		SchemaMismatch:       {422, "The mapped fields differ from the schema."},
		SchemaTooLarge:       {400, "The schema request names too many datasources, tables or fields."},
		SchemaNoDatasource:   {404, "None of the datasources exists."},
		TenantMissing:        {401, "The token names no valid tenant."},
		TenantUnknown:        {404, "The tenant is unknown."},
		TenantUnavailable:    {503, "The tenant's database is unavailable; retry after the time given."},
		TenantSuspended:      {403, "The tenant is suspended."},
		PreconditionFailed:   {412, "The resource has changed since it was read."},
	}
}
