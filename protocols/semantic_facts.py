"""Facts for semantic equality of API types, made by `python -m kcm.runtime.apiserver.schema.generate`.

    core.v1.Volume emptyDir:*core.v1.EmptyDirVolumeSource    a type, then its fields
    *     is held by pointer: its zero is a value             []   is a list, {} a map with keys of the user's choice
    quantity, any (opaque JSON) or the type of what has fields; nothing for a string, a number, a boolean or a time

A field that is not here is a string, a number, a boolean or a time held by value, or a list of these.
"""

FACTS = """
apps.v1.DaemonSet metadata:meta.v1.ObjectMeta spec:apps.v1.DaemonSetSpec status:apps.v1.DaemonSetStatus
apps.v1.DaemonSetCondition
apps.v1.DaemonSetSpec revisionHistoryLimit:* selector:*meta.v1.LabelSelector template:core.v1.PodTemplateSpec
  updateStrategy:apps.v1.DaemonSetUpdateStrategy
apps.v1.DaemonSetStatus collisionCount:* conditions:[]apps.v1.DaemonSetCondition
apps.v1.DaemonSetUpdateStrategy rollingUpdate:*apps.v1.RollingUpdateDaemonSet
apps.v1.Deployment metadata:meta.v1.ObjectMeta spec:apps.v1.DeploymentSpec status:apps.v1.DeploymentStatus
apps.v1.DeploymentCondition
apps.v1.DeploymentSpec progressDeadlineSeconds:* replicas:* revisionHistoryLimit:* selector:*meta.v1.LabelSelector
  strategy:apps.v1.DeploymentStrategy template:core.v1.PodTemplateSpec
apps.v1.DeploymentStatus collisionCount:* conditions:[]apps.v1.DeploymentCondition terminatingReplicas:*
apps.v1.DeploymentStrategy rollingUpdate:*apps.v1.RollingUpdateDeployment
apps.v1.ReplicaSet metadata:meta.v1.ObjectMeta spec:apps.v1.ReplicaSetSpec status:apps.v1.ReplicaSetStatus
apps.v1.ReplicaSetCondition
apps.v1.ReplicaSetSpec replicas:* selector:*meta.v1.LabelSelector template:core.v1.PodTemplateSpec
apps.v1.ReplicaSetStatus conditions:[]apps.v1.ReplicaSetCondition terminatingReplicas:*
apps.v1.RollingUpdateDaemonSet maxSurge:* maxUnavailable:*
apps.v1.RollingUpdateDeployment maxSurge:* maxUnavailable:*
apps.v1.RollingUpdateStatefulSetStrategy maxUnavailable:* partition:*
apps.v1.StatefulSet metadata:meta.v1.ObjectMeta spec:apps.v1.StatefulSetSpec status:apps.v1.StatefulSetStatus
apps.v1.StatefulSetCondition
apps.v1.StatefulSetOrdinals
apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy
apps.v1.StatefulSetSpec ordinals:*apps.v1.StatefulSetOrdinals
  persistentVolumeClaimRetentionPolicy:*apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy replicas:*
  revisionHistoryLimit:* selector:*meta.v1.LabelSelector template:core.v1.PodTemplateSpec
  updateStrategy:apps.v1.StatefulSetUpdateStrategy volumeClaimTemplates:[]core.v1.PersistentVolumeClaim
apps.v1.StatefulSetStatus collisionCount:* conditions:[]apps.v1.StatefulSetCondition
apps.v1.StatefulSetUpdateStrategy rollingUpdate:*apps.v1.RollingUpdateStatefulSetStrategy
batch.v1.CronJob metadata:meta.v1.ObjectMeta spec:batch.v1.CronJobSpec status:batch.v1.CronJobStatus
batch.v1.CronJobSpec failedJobsHistoryLimit:* jobTemplate:batch.v1.JobTemplateSpec startingDeadlineSeconds:*
  successfulJobsHistoryLimit:* suspend:* timeZone:*
batch.v1.CronJobStatus active:[]core.v1.ObjectReference lastScheduleTime:* lastSuccessfulTime:*
batch.v1.Job metadata:meta.v1.ObjectMeta spec:batch.v1.JobSpec status:batch.v1.JobStatus
batch.v1.JobCondition
batch.v1.JobSpec activeDeadlineSeconds:* backoffLimit:* backoffLimitPerIndex:* completionMode:* completions:*
  managedBy:* manualSelector:* maxFailedIndexes:* parallelism:* podFailurePolicy:*batch.v1.PodFailurePolicy
  podReplacementPolicy:* selector:*meta.v1.LabelSelector successPolicy:*batch.v1.SuccessPolicy suspend:*
  template:core.v1.PodTemplateSpec ttlSecondsAfterFinished:*
batch.v1.JobStatus completionTime:* conditions:[]batch.v1.JobCondition failedIndexes:* ready:* startTime:*
  terminating:* uncountedTerminatedPods:*batch.v1.UncountedTerminatedPods
batch.v1.JobTemplateSpec metadata:meta.v1.ObjectMeta spec:batch.v1.JobSpec
batch.v1.PodFailurePolicy rules:[]batch.v1.PodFailurePolicyRule
batch.v1.PodFailurePolicyOnExitCodesRequirement containerName:*
batch.v1.PodFailurePolicyOnPodConditionsPattern
batch.v1.PodFailurePolicyRule onExitCodes:*batch.v1.PodFailurePolicyOnExitCodesRequirement
  onPodConditions:[]batch.v1.PodFailurePolicyOnPodConditionsPattern
batch.v1.SuccessPolicy rules:[]batch.v1.SuccessPolicyRule
batch.v1.SuccessPolicyRule succeededCount:* succeededIndexes:*
batch.v1.UncountedTerminatedPods
core.v1.AWSElasticBlockStoreVolumeSource
core.v1.Affinity nodeAffinity:*core.v1.NodeAffinity podAffinity:*core.v1.PodAffinity
  podAntiAffinity:*core.v1.PodAntiAffinity
core.v1.AppArmorProfile localhostProfile:*
core.v1.AzureDiskVolumeSource cachingMode:* fsType:* kind:* readOnly:*
core.v1.AzureFileVolumeSource
core.v1.CSIVolumeSource fsType:* nodePublishSecretRef:*core.v1.LocalObjectReference readOnly:* volumeAttributes:{}
core.v1.Capabilities
core.v1.CephFSVolumeSource secretRef:*core.v1.LocalObjectReference
core.v1.CinderVolumeSource secretRef:*core.v1.LocalObjectReference
core.v1.ClusterTrustBundleProjection labelSelector:*meta.v1.LabelSelector name:* optional:* signerName:*
core.v1.ConfigMapEnvSource optional:*
core.v1.ConfigMapKeySelector optional:*
core.v1.ConfigMapProjection items:[]core.v1.KeyToPath optional:*
core.v1.ConfigMapVolumeSource defaultMode:* items:[]core.v1.KeyToPath optional:*
core.v1.Container env:[]core.v1.EnvVar envFrom:[]core.v1.EnvFromSource lifecycle:*core.v1.Lifecycle
  livenessProbe:*core.v1.Probe ports:[]core.v1.ContainerPort readinessProbe:*core.v1.Probe
  resizePolicy:[]core.v1.ContainerResizePolicy resources:core.v1.ResourceRequirements restartPolicy:*
  restartPolicyRules:[]core.v1.ContainerRestartRule securityContext:*core.v1.SecurityContext
  startupProbe:*core.v1.Probe volumeDevices:[]core.v1.VolumeDevice volumeMounts:[]core.v1.VolumeMount
core.v1.ContainerExtendedResourceRequest
core.v1.ContainerPort
core.v1.ContainerResizePolicy
core.v1.ContainerRestartRule exitCodes:*core.v1.ContainerRestartRuleOnExitCodes
core.v1.ContainerRestartRuleOnExitCodes
core.v1.ContainerState running:*core.v1.ContainerStateRunning terminated:*core.v1.ContainerStateTerminated
  waiting:*core.v1.ContainerStateWaiting
core.v1.ContainerStateRunning
core.v1.ContainerStateTerminated
core.v1.ContainerStateWaiting
core.v1.ContainerStatus allocatedResources:{}quantity allocatedResourcesStatus:[]core.v1.ResourceStatus
  lastState:core.v1.ContainerState resources:*core.v1.ResourceRequirements started:* state:core.v1.ContainerState
  stopSignal:* user:*core.v1.ContainerUser volumeMounts:[]core.v1.VolumeMountStatus
core.v1.ContainerUser linux:*core.v1.LinuxContainerUser
core.v1.DownwardAPIProjection items:[]core.v1.DownwardAPIVolumeFile
core.v1.DownwardAPIVolumeFile fieldRef:*core.v1.ObjectFieldSelector mode:*
  resourceFieldRef:*core.v1.ResourceFieldSelector
core.v1.DownwardAPIVolumeSource defaultMode:* items:[]core.v1.DownwardAPIVolumeFile
core.v1.EmptyDirVolumeSource sizeLimit:*quantity
core.v1.EnvFromSource configMapRef:*core.v1.ConfigMapEnvSource secretRef:*core.v1.SecretEnvSource
core.v1.EnvVar valueFrom:*core.v1.EnvVarSource
core.v1.EnvVarSource configMapKeyRef:*core.v1.ConfigMapKeySelector fieldRef:*core.v1.ObjectFieldSelector
  fileKeyRef:*core.v1.FileKeySelector resourceFieldRef:*core.v1.ResourceFieldSelector
  secretKeyRef:*core.v1.SecretKeySelector
core.v1.EphemeralContainer env:[]core.v1.EnvVar envFrom:[]core.v1.EnvFromSource lifecycle:*core.v1.Lifecycle
  livenessProbe:*core.v1.Probe ports:[]core.v1.ContainerPort readinessProbe:*core.v1.Probe
  resizePolicy:[]core.v1.ContainerResizePolicy resources:core.v1.ResourceRequirements restartPolicy:*
  restartPolicyRules:[]core.v1.ContainerRestartRule securityContext:*core.v1.SecurityContext
  startupProbe:*core.v1.Probe volumeDevices:[]core.v1.VolumeDevice volumeMounts:[]core.v1.VolumeMount
core.v1.EphemeralVolumeSource volumeClaimTemplate:*core.v1.PersistentVolumeClaimTemplate
core.v1.ExecAction
core.v1.FCVolumeSource lun:*
core.v1.FileKeySelector optional:*
core.v1.FlexVolumeSource options:{} secretRef:*core.v1.LocalObjectReference
core.v1.FlockerVolumeSource
core.v1.GCEPersistentDiskVolumeSource
core.v1.GRPCAction service:*
core.v1.GitRepoVolumeSource
core.v1.GlusterfsVolumeSource
core.v1.HTTPGetAction httpHeaders:[]core.v1.HTTPHeader
core.v1.HTTPHeader
core.v1.HostAlias
core.v1.HostIP
core.v1.HostPathVolumeSource type:*
core.v1.ISCSIVolumeSource initiatorName:* secretRef:*core.v1.LocalObjectReference
core.v1.ImageVolumeSource
core.v1.ImageVolumeStatus
core.v1.KeyToPath mode:*
core.v1.Lifecycle postStart:*core.v1.LifecycleHandler preStop:*core.v1.LifecycleHandler stopSignal:*
core.v1.LifecycleHandler exec:*core.v1.ExecAction httpGet:*core.v1.HTTPGetAction sleep:*core.v1.SleepAction
  tcpSocket:*core.v1.TCPSocketAction
core.v1.LinuxContainerUser
core.v1.LocalObjectReference
core.v1.ModifyVolumeStatus
core.v1.NFSVolumeSource
core.v1.NodeAffinity preferredDuringSchedulingIgnoredDuringExecution:[]core.v1.PreferredSchedulingTerm
  requiredDuringSchedulingIgnoredDuringExecution:*core.v1.NodeSelector
core.v1.NodeAllocatableResourceClaimStatus resources:{}quantity
core.v1.NodeSelector nodeSelectorTerms:[]core.v1.NodeSelectorTerm
core.v1.NodeSelectorRequirement
core.v1.NodeSelectorTerm matchExpressions:[]core.v1.NodeSelectorRequirement
  matchFields:[]core.v1.NodeSelectorRequirement
core.v1.ObjectFieldSelector
core.v1.ObjectReference
core.v1.PersistentVolumeClaim metadata:meta.v1.ObjectMeta spec:core.v1.PersistentVolumeClaimSpec
  status:core.v1.PersistentVolumeClaimStatus
core.v1.PersistentVolumeClaimCondition
core.v1.PersistentVolumeClaimSpec dataSource:*core.v1.TypedLocalObjectReference
  dataSourceRef:*core.v1.TypedObjectReference resources:core.v1.VolumeResourceRequirements
  selector:*meta.v1.LabelSelector storageClassName:* volumeAttributesClassName:* volumeMode:*
core.v1.PersistentVolumeClaimStatus allocatedResourceStatuses:{} allocatedResources:{}quantity capacity:{}quantity
  conditions:[]core.v1.PersistentVolumeClaimCondition currentVolumeAttributesClassName:*
  modifyVolumeStatus:*core.v1.ModifyVolumeStatus
core.v1.PersistentVolumeClaimTemplate metadata:meta.v1.ObjectMeta spec:core.v1.PersistentVolumeClaimSpec
core.v1.PersistentVolumeClaimVolumeSource
core.v1.PhotonPersistentDiskVolumeSource
core.v1.Pod metadata:meta.v1.ObjectMeta spec:core.v1.PodSpec status:core.v1.PodStatus
core.v1.PodAffinity preferredDuringSchedulingIgnoredDuringExecution:[]core.v1.WeightedPodAffinityTerm
  requiredDuringSchedulingIgnoredDuringExecution:[]core.v1.PodAffinityTerm
core.v1.PodAffinityTerm labelSelector:*meta.v1.LabelSelector namespaceSelector:*meta.v1.LabelSelector
core.v1.PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution:[]core.v1.WeightedPodAffinityTerm
  requiredDuringSchedulingIgnoredDuringExecution:[]core.v1.PodAffinityTerm
core.v1.PodCertificateProjection maxExpirationSeconds:* userAnnotations:{}
core.v1.PodCondition
core.v1.PodDNSConfig options:[]core.v1.PodDNSConfigOption
core.v1.PodDNSConfigOption value:*
core.v1.PodExtendedResourceClaimStatus requestMappings:[]core.v1.ContainerExtendedResourceRequest
core.v1.PodIP
core.v1.PodOS
core.v1.PodReadinessGate
core.v1.PodResourceClaim resourceClaimName:* resourceClaimTemplateName:*
core.v1.PodResourceClaimStatus resourceClaimName:*
core.v1.PodSchedulingGate
core.v1.PodSchedulingGroup podGroupName:*
core.v1.PodSecurityContext appArmorProfile:*core.v1.AppArmorProfile fsGroup:* fsGroupChangePolicy:* runAsGroup:*
  runAsNonRoot:* runAsUser:* seLinuxChangePolicy:* seLinuxOptions:*core.v1.SELinuxOptions
  seccompProfile:*core.v1.SeccompProfile supplementalGroupsPolicy:* sysctls:[]core.v1.Sysctl
  windowsOptions:*core.v1.WindowsSecurityContextOptions
core.v1.PodSpec activeDeadlineSeconds:* affinity:*core.v1.Affinity automountServiceAccountToken:*
  containers:[]core.v1.Container dnsConfig:*core.v1.PodDNSConfig enableServiceLinks:*
  ephemeralContainers:[]core.v1.EphemeralContainer hostAliases:[]core.v1.HostAlias hostUsers:* hostnameOverride:*
  imagePullSecrets:[]core.v1.LocalObjectReference initContainers:[]core.v1.Container nodeSelector:{} os:*core.v1.PodOS
  overhead:{}quantity preemptionPolicy:* priority:* readinessGates:[]core.v1.PodReadinessGate
  resourceClaims:[]core.v1.PodResourceClaim resources:*core.v1.ResourceRequirements runtimeClassName:*
  schedulingGates:[]core.v1.PodSchedulingGate schedulingGroup:*core.v1.PodSchedulingGroup
  securityContext:*core.v1.PodSecurityContext setHostnameAsFQDN:* shareProcessNamespace:*
  terminationGracePeriodSeconds:* tolerations:[]core.v1.Toleration
  topologySpreadConstraints:[]core.v1.TopologySpreadConstraint volumes:[]core.v1.Volume
core.v1.PodStatus allocatedResources:{}quantity conditions:[]core.v1.PodCondition
  containerStatuses:[]core.v1.ContainerStatus ephemeralContainerStatuses:[]core.v1.ContainerStatus
  extendedResourceClaimStatus:*core.v1.PodExtendedResourceClaimStatus hostIPs:[]core.v1.HostIP
  initContainerStatuses:[]core.v1.ContainerStatus
  nodeAllocatableResourceClaimStatuses:[]core.v1.NodeAllocatableResourceClaimStatus podIPs:[]core.v1.PodIP
  resourceClaimStatuses:[]core.v1.PodResourceClaimStatus resources:*core.v1.ResourceRequirements startTime:*
core.v1.PodTemplateSpec metadata:meta.v1.ObjectMeta spec:core.v1.PodSpec
core.v1.PortworxVolumeSource
core.v1.PreferredSchedulingTerm preference:core.v1.NodeSelectorTerm
core.v1.Probe exec:*core.v1.ExecAction grpc:*core.v1.GRPCAction httpGet:*core.v1.HTTPGetAction
  tcpSocket:*core.v1.TCPSocketAction terminationGracePeriodSeconds:*
core.v1.ProjectedVolumeSource defaultMode:* sources:[]core.v1.VolumeProjection
core.v1.QuobyteVolumeSource
core.v1.RBDVolumeSource secretRef:*core.v1.LocalObjectReference
core.v1.ReplicationController metadata:meta.v1.ObjectMeta spec:core.v1.ReplicationControllerSpec
  status:core.v1.ReplicationControllerStatus
core.v1.ReplicationControllerCondition
core.v1.ReplicationControllerSpec replicas:* selector:{} template:*core.v1.PodTemplateSpec
core.v1.ReplicationControllerStatus conditions:[]core.v1.ReplicationControllerCondition
core.v1.ResourceClaim
core.v1.ResourceFieldSelector divisor:quantity
core.v1.ResourceHealth message:*
core.v1.ResourceRequirements claims:[]core.v1.ResourceClaim limits:{}quantity requests:{}quantity
core.v1.ResourceStatus resources:[]core.v1.ResourceHealth
core.v1.SELinuxOptions
core.v1.ScaleIOVolumeSource secretRef:*core.v1.LocalObjectReference
core.v1.SeccompProfile localhostProfile:*
core.v1.SecretEnvSource optional:*
core.v1.SecretKeySelector optional:*
core.v1.SecretProjection items:[]core.v1.KeyToPath optional:*
core.v1.SecretVolumeSource defaultMode:* items:[]core.v1.KeyToPath optional:*
core.v1.SecurityContext allowPrivilegeEscalation:* appArmorProfile:*core.v1.AppArmorProfile
  capabilities:*core.v1.Capabilities privileged:* procMount:* readOnlyRootFilesystem:* runAsGroup:* runAsNonRoot:*
  runAsUser:* seLinuxOptions:*core.v1.SELinuxOptions seccompProfile:*core.v1.SeccompProfile
  windowsOptions:*core.v1.WindowsSecurityContextOptions
core.v1.ServiceAccountTokenProjection expirationSeconds:*
core.v1.SleepAction
core.v1.StorageOSVolumeSource secretRef:*core.v1.LocalObjectReference
core.v1.Sysctl
core.v1.TCPSocketAction
core.v1.Toleration tolerationSeconds:*
core.v1.TopologySpreadConstraint labelSelector:*meta.v1.LabelSelector minDomains:* nodeAffinityPolicy:*
  nodeTaintsPolicy:*
core.v1.TypedLocalObjectReference apiGroup:*
core.v1.TypedObjectReference apiGroup:* namespace:*
core.v1.Volume awsElasticBlockStore:*core.v1.AWSElasticBlockStoreVolumeSource azureDisk:*core.v1.AzureDiskVolumeSource
  azureFile:*core.v1.AzureFileVolumeSource cephfs:*core.v1.CephFSVolumeSource cinder:*core.v1.CinderVolumeSource
  configMap:*core.v1.ConfigMapVolumeSource csi:*core.v1.CSIVolumeSource downwardAPI:*core.v1.DownwardAPIVolumeSource
  emptyDir:*core.v1.EmptyDirVolumeSource ephemeral:*core.v1.EphemeralVolumeSource fc:*core.v1.FCVolumeSource
  flexVolume:*core.v1.FlexVolumeSource flocker:*core.v1.FlockerVolumeSource
  gcePersistentDisk:*core.v1.GCEPersistentDiskVolumeSource gitRepo:*core.v1.GitRepoVolumeSource
  glusterfs:*core.v1.GlusterfsVolumeSource hostPath:*core.v1.HostPathVolumeSource image:*core.v1.ImageVolumeSource
  iscsi:*core.v1.ISCSIVolumeSource nfs:*core.v1.NFSVolumeSource
  persistentVolumeClaim:*core.v1.PersistentVolumeClaimVolumeSource
  photonPersistentDisk:*core.v1.PhotonPersistentDiskVolumeSource portworxVolume:*core.v1.PortworxVolumeSource
  projected:*core.v1.ProjectedVolumeSource quobyte:*core.v1.QuobyteVolumeSource rbd:*core.v1.RBDVolumeSource
  scaleIO:*core.v1.ScaleIOVolumeSource secret:*core.v1.SecretVolumeSource storageos:*core.v1.StorageOSVolumeSource
  vsphereVolume:*core.v1.VsphereVirtualDiskVolumeSource
core.v1.VolumeDevice
core.v1.VolumeMount mountPropagation:* recursiveReadOnly:*
core.v1.VolumeMountStatus recursiveReadOnly:* volumeStatus:*core.v1.VolumeStatus
core.v1.VolumeProjection clusterTrustBundle:*core.v1.ClusterTrustBundleProjection
  configMap:*core.v1.ConfigMapProjection downwardAPI:*core.v1.DownwardAPIProjection
  podCertificate:*core.v1.PodCertificateProjection secret:*core.v1.SecretProjection
  serviceAccountToken:*core.v1.ServiceAccountTokenProjection
core.v1.VolumeResourceRequirements limits:{}quantity requests:{}quantity
core.v1.VolumeStatus image:*core.v1.ImageVolumeStatus
core.v1.VsphereVirtualDiskVolumeSource
core.v1.WeightedPodAffinityTerm podAffinityTerm:core.v1.PodAffinityTerm
core.v1.WindowsSecurityContextOptions gmsaCredentialSpec:* gmsaCredentialSpecName:* hostProcess:* runAsUserName:*
meta.v1.LabelSelector matchExpressions:[]meta.v1.LabelSelectorRequirement matchLabels:{}
meta.v1.LabelSelectorRequirement
meta.v1.ManagedFieldsEntry fieldsV1:*any time:*
meta.v1.ObjectMeta annotations:{} deletionGracePeriodSeconds:* deletionTimestamp:* labels:{}
  managedFields:[]meta.v1.ManagedFieldsEntry ownerReferences:[]meta.v1.OwnerReference
meta.v1.OwnerReference blockOwnerDeletion:* controller:*
"""
